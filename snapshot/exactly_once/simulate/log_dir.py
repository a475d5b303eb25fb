"""The partitions of this host's log directories, each with a replica in its leader's place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tiersnap.snapshot.exactly_once.models.eras import BrokerEra, ClientEra
from tiersnap.snapshot.exactly_once.simulate.outcomes import Tally, differing_writes, outcomes
from tiersnap.snapshot.exactly_once.simulate.replica import Replicas, ReplicaSnapshot, replicas
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.replay_start import Beginnings
from tiersnap.snapshot.units import count_of


@dataclass
class HostSimulation:
    """Simulates partition by partition, and adds up what it finds."""

    snapshot: ReplicaSnapshot  # of the replica
    expiry: Expiry
    producer_expiration: int | None  # ms; None if producers never expire
    brokers: tuple[BrokerEra, ...]  # brokers, clients: the releases that answer; the tally is of the last brokers
    clients: tuple[ClientEra, ...]
    transaction_version: int  # of transactions that begin now
    check_crc: bool
    everything: bool  # also rows in which the replica answers as the leader does
    by_producer: bool  # a row a producer and write instead, for the last brokers
    beginnings: Beginnings = field(default_factory=Beginnings)  # what came before the files of a log
    # Partitions of which nothing can be said: their logs begin in remote storage, which was not asked, or does not tell
    # how.
    not_compared: list[str] = field(default_factory=list)
    # Partitions that are not simulated, as their logs cannot be replayed to the end; `findings` say why.
    not_whole: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # what is damaged or may not be read
    said: list[str] = field(default_factory=list)  # sentences about partitions that were not, or not wholly, simulated

    def __post_init__(self) -> None:
        self.tally = Tally(self.brokers[-1])

    def rows(self, partitions: Iterable[tuple[NamedLogDir, Partition]]) -> Iterator[dict[str, object]]:
        """Return rows of `outcomes` or `differing_writes` with `log_dir`, `partition`, `from` and `at` of a replica."""
        for named, partition in partitions:
            for row in self.rows_of(named.log_dir.filesystem, partition):
                yield {"log_dir": named.uri, **row}

    def sentence(self) -> str:
        """Return what would happen if this replica became leader now, and of how many partitions nobody knows."""
        if not self.not_compared:
            return self.tally.sentence()
        count = count_of(len(self.not_compared), "partition is", "partitions are")
        unknown = f"{count} not compared: what came before the files is in remote storage."
        return f"{self.tally.sentence()} {unknown}" if self.tally.producers else unknown

    def rows_of(self, filesystem: FileSystem, partition: Partition) -> Iterator[dict[str, object]]:
        """Return the rows of one partition, without its `log_dir`."""
        begins = self.beginnings.of(partition)
        if begins.goes_back(partition) and begins.start is None and begins.copy is None:
            self.not_compared.append(partition.name)
            self.said.append(f"{partition.name}: not compared: what came before its files is in remote storage")
            return
        found = replicas(
            filesystem,
            partition,
            self.snapshot,
            self.expiry,
            producer_expiration=self.producer_expiration,
            check_crc=self.check_crc,
            begins=begins,
        )
        self.findings.extend(found.findings)
        self.not_whole += [] if found.is_whole else [partition.name]
        self.said.extend(_said(found))
        given = Circumstances(partition.log_start_offset, self.transaction_version)
        classes = list(what_if(found.leader, found.replica, self.brokers, given))
        self.tally.add(classes)
        about = {"partition": partition.name, "from": str(self.snapshot.origin), "at": found.start.offset}
        if self.by_producer:
            yield from (about | row for row in differing_writes(classes, found.leader, self.brokers[-1]))
            return
        listed = outcomes(classes, found.leader.entries["producer_id"].tolist(), self.brokers, self.clients, given)
        yield from (about | outcome.as_row() for outcome in listed if self.everything or outcome.differs)


def _said(found: Replicas) -> Iterator[str]:
    name = found.partition.name
    for message in found.start.passed_over:
        yield f"{name}: a broker passes over {message}"
    if not found.is_whole:
        yield f"{name}: not simulated, the log cannot be replayed to its end"
    if found.expired:
        yield (
            f"{name}: {count_of(found.expired, 'producer is', 'producers are')} left out, every broker has dropped "
            "them by now"
        )
