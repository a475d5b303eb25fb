"""The settings of a simulation, on a host and over tables alike."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, CLIENT_ERAS, BrokerEra, ClientEra
from tiersnap.snapshot.replay.expiry import Expiry


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The releases that answer, and the producers that they know."""

    expiry: Expiry  # the producers that `repair` omits from a snapshot, and the time at which everything is judged
    producer_expiration: int | None  # ms; None if producers never expire
    brokers: tuple[BrokerEra, ...] = BROKER_ERAS  # tallies count the answers of the last
    clients: tuple[ClientEra, ...] = CLIENT_ERAS
    transaction_version: int = 1  # of transactions that begin now
