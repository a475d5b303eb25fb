"""The simulation of failovers, for the partitions in a host's log directories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tiersnap.snapshot.exactly_once.simulate.kinds import AnsweringReplica, SimulatedProducer, SimulatedWrite
from tiersnap.snapshot.exactly_once.simulate.outcomes import Tally, differing_writes, outcomes
from tiersnap.snapshot.exactly_once.simulate.replica import Replicas, ReplicaSnapshot, replicas
from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, WriteClass, what_if
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.replay.replay_start import Beginnings
from tiersnap.snapshot.units import count_of


@dataclass
class HostSimulation:
    """A simulation of several partitions, which sums up their results."""

    snapshot: ReplicaSnapshot  # snapshot that the replica starts from
    settings: SimulationSettings
    check_crc: bool = True
    everything: bool = False  # whether to include writes that replica and leader answer in the same way
    by_producer: bool = False  # whether to yield a row per producer and write, for the last broker era only
    beginnings: Beginnings = field(default_factory=Beginnings)  # beginnings of logs that begin in remote storage
    # Partitions without a simulation, because their logs begin in remote storage. Remote storage was not asked, or does
    # not have the beginning.
    not_compared: list[str] = field(default_factory=list)
    # Partitions without a simulation, because their logs cannot be replayed to the end. `findings` has the reasons.
    not_whole: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # damaged or unreadable files
    said: list[str] = field(default_factory=list)  # sentences about partitions that were not completely simulated

    def __post_init__(self) -> None:
        self.tally = Tally()

    def answers(
        self, partitions: Iterable[tuple[NamedLogDir, Partition]]
    ) -> Iterator[SimulatedWrite | SimulatedProducer]:
        """Yield the answers of the replicas. If `by_producer` is set, the rows are per producer."""
        for named, partition in partitions:
            of_partition = self._differing_of if self.by_producer else self.outcomes_of
            yield from of_partition(named.log_dir.filesystem, partition, named.uri)

    def sentence(self) -> str:
        """Return a text about failovers to the simulated replicas, and about the partitions that were not compared."""
        sentence = self.tally.sentence(self.settings.brokers[-1])
        if not self.not_compared:
            return sentence
        count = count_of(len(self.not_compared), "partition is", "partitions are")
        is_in = "may be" if self.beginnings.unlocated else "is"
        unknown = f"{count} not simulated, because the start of the log {is_in} in remote storage."
        if not self.tally.producers:
            return unknown
        return f"{sentence} {unknown}"

    def outcomes_of(self, filesystem: FileSystem, partition: Partition, log_dir: str = "") -> Iterator[SimulatedWrite]:
        """Yield the answers of one partition's replica."""
        for found, classes, given in self._simulated(filesystem, partition):
            replica = AnsweringReplica(log_dir, partition.name, self.snapshot.origin, found.start.offset)
            ids = found.leader.entries["producer_id"].tolist()
            for each in outcomes(classes, ids, self.settings.brokers, self.settings.clients, given):
                if self.everything or each.answers.differs:
                    yield SimulatedWrite(replica, each)

    def _differing_of(self, filesystem: FileSystem, partition: Partition, log_dir: str) -> Iterator[SimulatedProducer]:
        for found, classes, _ in self._simulated(filesystem, partition):
            replica = AnsweringReplica(log_dir, partition.name, self.snapshot.origin, found.start.offset)
            for each in differing_writes(classes, found.leader, self.settings.brokers[-1]):
                yield SimulatedProducer(replica, each)

    def _simulated(
        self, filesystem: FileSystem, partition: Partition
    ) -> Iterator[tuple[Replicas, list[WriteClass], Circumstances]]:
        """Simulate one partition and add it to the tally. If the beginning of its log is unknown, yield nothing."""
        begins = self.beginnings.of(partition)
        if begins.goes_back(partition) and begins.start is None and begins.copy is None:
            self.not_compared.append(partition.name)
            why = "the start of the log is in remote storage"
            if begins.is_unlocated(partition):
                why = "the log start is unknown"
            self.said.append(f"{partition.name}: not compared: {why}")
            return
        found = replicas(
            filesystem,
            partition,
            self.snapshot,
            self.settings.expiry,
            producer_expiration=self.settings.producer_expiration,
            check_crc=self.check_crc,
            begins=begins,
        )
        self.findings.extend(found.findings)
        if not found.is_whole:
            self.not_whole.append(partition.name)
        self.said.extend(_said(found))
        given = Circumstances(partition.log_start_offset, self.settings.transaction_version)
        classes = list(what_if(found.leader, found.replica, self.settings.brokers, given))
        self.tally.add(classes, self.settings.brokers[-1])
        yield found, classes, given


def _said(found: Replicas) -> Iterator[str]:
    name = found.partition.name
    for message in found.start.passed_over:
        yield f"{name}: a broker ignores this snapshot file: {message}"
    if not found.is_whole:
        yield f"{name}: not simulated: the log cannot be replayed to its end"
    if found.expired:
        yield (
            f"{name}: {count_of(found.expired, 'producer is', 'producers are')} left out, because every broker "
            "has expired them by now"
        )
