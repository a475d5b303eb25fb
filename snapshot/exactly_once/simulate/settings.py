"""Settings of simulations, on a host or over tables."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, CLIENT_ERAS, BrokerEra, ClientEra
from tiersnap.snapshot.replay.expiry import Expiry


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation: releases, expiration of producers and time."""

    expiry: Expiry  # time of the simulation, and the expiration after which `repair` omits a producer from a snapshot
    producer_expiration: int | None  # ms, producer.id.expiration.ms; None if producers never expire
    brokers: tuple[BrokerEra, ...] = BROKER_ERAS  # the tally counts the answers of the last era
    clients: tuple[ClientEra, ...] = CLIENT_ERAS
    transaction_version: int = 1  # version of transactions that begin now
