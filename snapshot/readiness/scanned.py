"""A partition as it is judged now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.exactly_once.simulate.forgotten import Forgotten
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.readiness.copy_task import NO_BROKERS, BesideBrokers, CopyTasks
from tiersnap.snapshot.readiness.coverage import NOTHING_REMOTE, RemoteCoverage
from tiersnap.snapshot.readiness.judge import Readiness
from tiersnap.snapshot.readiness.judge_partition import JudgedSnapshot, SegmentReadiness
from tiersnap.snapshot.replay.examine import Examination, examine
from tiersnap.snapshot.replay.partition_replay import NOT_LOOKED, Beginning
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict


@dataclass(frozen=True)
class Scanned:
    """A partition with its verdicts.

    Attributes:
        readiness: of its segments, in their order.
        snapshots: verdicts by offset.
        now: epoch ms.
        producer_expiration: ms; None if producers never expire.
        forgotten: producers that live and that a broker which loads these files would not know; None where there is
            none, or nobody asked remote storage.
    """

    examination: Examination
    readiness: tuple[Readiness, ...]
    snapshots: Mapping[int, SnapshotVerdict]
    now: int
    producer_expiration: int | None
    forgotten: Forgotten | None = None

    @classmethod
    def of(
        cls,
        examination: Examination,
        now: int,
        producer_expiration: int | None,
        coverage: RemoteCoverage = NOTHING_REMOTE,
        tasks: CopyTasks | None = None,
    ) -> Scanned:
        """Judge a partition; what remote storage holds of it (`coverage`), a log directory does not say.

        Args:
            tasks: what a cluster says of its copy tasks; None where none was asked.
        """
        partition = examination.partition
        beside = NO_BROKERS if tasks is None else BesideBrokers(left_for=0, tasks=tasks)
        broker = beside.broker_at(partition.topic_id, partition.partition, None)
        readiness = examination.readiness(
            now=now, producer_expiration=producer_expiration, coverage=coverage, broker=broker
        )
        verdicts = {offset: found.verdict(now, producer_expiration) for offset, found in examination.snapshots.items()}
        return cls(examination, readiness, verdicts, now, producer_expiration)

    @property
    def segments(self) -> Iterator[SegmentReadiness]:
        """The segments with the snapshots at their ends; nothing is computed in the place of a file."""
        found = self.examination
        for segment, readiness in zip(found.segments, self.readiness, strict=True):
            end = segment.next_base_offset
            offset = found.facts.log_end_offset if end is None else end
            verdict = self.snapshots.get(offset, SnapshotVerdict.MISSING)
            provenance = Provenance.BROKER if verdict.is_trusted else None
            yield SegmentReadiness(segment, readiness, JudgedSnapshot(found.reached.get(offset), verdict, provenance))


class Inventory(Protocol):
    """The remote inventory of partitions; `errors` name those of which it is unknown."""

    errors: list[TiersnapError]

    def beginning(self, partition: Partition) -> Beginning:
        """Return what remote storage says of the log before its files."""
        ...

    def coverage(self, partition: Partition, log_end_offset: int = ENDLESS) -> RemoteCoverage:
        """Return the tiered offsets of the partition; `log_end_offset` is exclusive."""
        ...

    def forgotten(self, filesystem: FileSystem, partition: Partition) -> Forgotten | None:
        """Return the producers that a broker that loads the partition's files would not know; see find_forgotten."""
        ...


@dataclass(frozen=True)
class Scanner:
    """Replays partitions and judges them; see Scanned.

    Attributes:
        inventory: of remote storage; None judges by the log directory alone.
        tasks: what a cluster says of its copy tasks; None where none was asked.
    """

    inventory: Inventory | None
    now: int
    producer_expiration: int | None
    check_crc: bool = True
    tasks: CopyTasks | None = None

    def scan(self, filesystem: FileSystem, partition: Partition) -> Scanned:
        """Return the partition as it is judged."""
        inventory = self.inventory
        begins = NOT_LOOKED if inventory is None else inventory.beginning(partition)
        examination = examine(filesystem, partition, check_crc=self.check_crc, begins=begins)
        log_end = examination.facts.log_end_offset
        tiered = NOTHING_REMOTE if inventory is None else inventory.coverage(partition, log_end)
        found = Scanned.of(examination, self.now, self.producer_expiration, tiered, self.tasks)
        return found if inventory is None else replace(found, forgotten=inventory.forgotten(filesystem, partition))

    @property
    def errors(self) -> list[TiersnapError]:
        """Those of the inventory; the list grows with the partitions."""
        return [] if self.inventory is None else self.inventory.errors
