"""Options of `tiersnap simulate`: the replica, who asks it, and what is listed."""

from __future__ import annotations

from dataclasses import dataclass

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.release import BrokerRelease, ClientRelease
from tiersnap.jobs.old_options.together import as_one
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.models.broker_eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.models.client_eras import CLIENT_ERAS, ClientEra
from tiersnap.snapshot.exactly_once.simulate.log_dir import ORIGINS, HostSimulation, ReplicaSnapshot
from tiersnap.snapshot.exactly_once.simulate.replica import Origin
from tiersnap.snapshot.replay.beginnings import Beginnings
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.tasks.simulate_partition import SimulatePartition


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """What was asked for; times in ms."""

    start_from: str | None
    at: int | None
    broker: BrokerEra | None
    client: ClientEra | None
    transaction_version: int
    everything: bool
    producers: bool
    check_crc: bool
    expiration: int | None
    producer_expiration: int | None
    now: int

    def of_host(self, beginnings: Beginnings) -> HostSimulation:
        """For the log directory of this host.

        Raises:
            SourceNotFoundError: --from is no directory.
            UsageError: --expiration and --producer-expiration exclude each other.
        """
        return HostSimulation(
            ReplicaSnapshot.of(self.start_from or str(Origin.BROKER), self.at),
            self._expiry,
            self.producer_expiration,
            self._brokers,
            self._clients,
            self.transaction_version,
            check_crc=self.check_crc,
            everything=self.everything,
            by_producer=self.producers,
            beginnings=beginnings,
        )

    def of_warehouse(self) -> SimulatePartition:
        """For the tables, which hold the state that is computed, and no entries of files.

        Raises:
            UsageError: only the files of a host tell what is asked for, or --expiration and --producer-expiration
                exclude each other.
        """
        if self.at is not None or self.producers:
            raise UsageError("--at and --producers need a LOGDIR", hint="the tables keep one state a partition")
        kept = (str(Origin.OURS), str(Origin.EMPTY))
        if self.start_from is not None and self.start_from not in kept:
            raise UsageError(
                f"--from {self.start_from} needs a LOGDIR", hint=f"over a warehouse --from takes {' or '.join(kept)}"
            )
        return SimulatePartition(
            Origin(self.start_from or kept[0]),
            self._expiry,
            self.producer_expiration,
            self._brokers,
            self._clients,
            self.transaction_version,
        )

    @property
    def _expiry(self) -> Expiry:
        return params.expiry(self.expiration, None, self.now, self.producer_expiration)

    @property
    def _brokers(self) -> tuple[BrokerEra, ...]:
        return BROKER_ERAS if self.broker is None else (self.broker,)

    @property
    def _clients(self) -> tuple[ClientEra, ...]:
        return CLIENT_ERAS if self.client is None else (self.client,)


# Given to the command as `asked: SimulateRequest`.
simulate_options = as_one(
    "asked",
    SimulateRequest,
    click.option(
        "--from",
        "start_from",
        metavar=f"{'|'.join(ORIGINS)}|DIR",
        help="The replica's snapshot: the newest beside the log that a broker loads, the one before, ours, an empty "
        "one, or the newest in DIR/<topic>-<partition>/; of a warehouse ours or empty.  [default: broker; of a "
        "warehouse ours]",
    ),
    click.option(
        "--at",
        type=click.IntRange(min=0),
        help="Offset of the snapshot, or the highest one for files.  [default: the newest segment's base offset for "
        "ours and empty]",
    ),
    click.option("--broker", type=BrokerRelease(), help="Brokers of this release alone, as 3.9.  [default: all]"),
    click.option("--client", type=ClientRelease(), help="Java clients of this release alone.  [default: all]"),
    click.option(
        "--transaction-version",
        type=click.IntRange(1, 2),
        default=1,
        show_default=True,
        help="Protocol of transactions on brokers that speak version 2 (KIP-890).",
    ),
    click.option(
        "--all", "everything", is_flag=True, help="Also rows in which the replica answers as the leader does."
    ),
    click.option(
        "--producers", is_flag=True, help="A row a producer and write instead, for the newest brokers or --broker."
    ),
    params.crc_option,
    params.expiration_option,
    params.producer_expiration_option,
    params.now_option,
)
