"""Scan partitions: replay and judge them, and sum up the results for the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.copy_task import NO_BROKERS, BesideBrokers, CopyTasks
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.judge import Readiness, judge
from tiersnap.snapshot.gate.judge_partition import JudgedSnapshot, SegmentReadiness
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import IN_REMOTE_STORAGE, Verdict, problems_of
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, RemoteCoverage
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.listed_again import Locate, listed_again
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import LogStarts, begins_below
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.repair.repair_plan import strays
from tiersnap.snapshot.repair.undone import lost_below_log_start, lost_index
from tiersnap.snapshot.replay.examine import Examination, examine
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning
from tiersnap.snapshot.replay.segment_runs import FoldSegment, fold_segment

if TYPE_CHECKING:  # a simulation is imported only if remote storage is read
    from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers


@dataclass(frozen=True)
class Scanned:
    """A partition with its verdicts."""

    examination: Examination
    readiness: tuple[Readiness, ...]  # for each segment, ascending
    snapshots: Mapping[int, SnapshotVerdict]  # verdicts on the snapshots, by offset
    expiry: BrokerExpiry
    # The active producers that a broker would lose if it loaded these files; None if there are none, or if remote
    # storage was not read.
    lost_producers: LostProducers | None = None

    @classmethod
    def of(
        cls,
        examination: Examination,
        expiry: BrokerExpiry,
        coverage: RemoteCoverage = NOTHING_REMOTE,
        tasks: CopyTasks | None = None,
    ) -> Scanned:
        """Judge a partition.

        Args:
            coverage: the offsets of the partition in remote storage.
            tasks: the cluster's copy tasks; None without a cluster.
        """
        partition = examination.partition
        beside = NO_BROKERS if tasks is None else BesideBrokers(left_for=0, tasks=tasks)
        broker = beside.broker_at(partition.topic_id, partition.partition, None)
        judged = judge(examination.facts, examination.examined, expiry, coverage=coverage, broker=broker)
        readiness = tuple(judged)
        verdicts = {offset: found.verdict(expiry) for offset, found in examination.snapshots.items()}
        return cls(examination, readiness, verdicts, expiry)

    @property
    def segments(self) -> Iterator[SegmentReadiness]:
        """Yield the segments, each with the verdict on the snapshot file at its end, not on a computed snapshot."""
        found = self.examination
        for segment, readiness in zip(found.segments, self.readiness, strict=True):
            end = segment.next_base_offset
            offset = found.facts.log_end_offset if end is None else end
            verdict = self.snapshots.get(offset, SnapshotVerdict.MISSING)
            provenance = Provenance.BROKER if verdict.is_trusted else None
            yield SegmentReadiness(segment, readiness, JudgedSnapshot(found.reached.get(offset), verdict, provenance))


class Inventory(Protocol):
    """The remote segments of partitions. `errors` contains the reason for each partition whose segments are unknown."""

    errors: list[TiersnapError]

    def beginning(self, partition: Partition) -> Beginning:
        """Return the producer state of the log at its first local offset, from remote storage."""

    def coverage(self, partition: Partition, log_end_offset: int = ENDLESS) -> RemoteCoverage:
        """Return the offsets of the partition in remote storage; `log_end_offset` is exclusive."""

    def lost_producers(self, filesystem: FileSystem, partition: Partition) -> LostProducers | None:
        """Return the producers that a broker loses if it loads the partition's files; see find_lost_producers."""


@dataclass(frozen=True)
class Scanner:
    """Replays and judges partitions; see Scanned."""

    inventory: Inventory | None  # the remote segments; None to judge only by the log directory
    expiry: BrokerExpiry
    check_crc: bool = True
    tasks: CopyTasks | None = None  # the cluster's copy tasks; None without a cluster
    fold: FoldSegment = fold_segment

    def scan(self, named: NamedLogDir, partition: Partition, located: Locate = iter) -> Scanned:
        """Return a partition with its verdicts; scan it again if retention deletes a segment during the scan."""
        found = self._scan(named.log_dir.filesystem, partition)
        again = listed_again(named, partition, found.examination.findings, located)
        if again is None:
            return found
        return self._scan(named.log_dir.filesystem, again)

    def _scan(self, filesystem: FileSystem, partition: Partition) -> Scanned:
        inventory = self.inventory
        begins = NOT_LOOKED if inventory is None else inventory.beginning(partition)
        examination = examine(filesystem, partition, check_crc=self.check_crc, begins=begins, fold=self.fold)
        if inventory is None:
            return Scanned.of(examination, self.expiry, NOTHING_REMOTE, self.tasks)
        tiered = inventory.coverage(partition, examination.facts.log_end_offset)
        found = Scanned.of(examination, self.expiry, tiered, self.tasks)
        return replace(found, lost_producers=inventory.lost_producers(filesystem, partition))

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors of the inventory. The list grows during the scan."""
        if self.inventory is None:
            return []
        return self.inventory.errors


_FOR_SNAPSHOTS = (Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT)


@dataclass
class ScanTotals:
    """The totals of a scan.

    A bad snapshot is a problem only if a broker or an upload will read it. Snapshots of topics that are never tiered
    are no problem. Stray snapshots are no problem either: a broker deletes them, because no segment begins at their
    offset. The snapshot at the end of a tiered segment is read only if it is the newest one, which a broker loads when
    it starts.
    """

    findings: list[Finding] = field(default_factory=list)  # initially those about the log directories
    errors: Sequence[TiersnapError] = ()  # why remote storage could not be read; may grow during the scan
    was_asked: bool = False  # whether a cluster was asked which segments its brokers copy
    verdicts: Counter[Verdict] = field(default_factory=Counter)  # of segments
    snapshots: Counter[SnapshotVerdict] = field(default_factory=Counter)
    wanted: Counter[SnapshotVerdict] = field(default_factory=Counter)  # snapshots that will be read
    deleted_segments: int = 0  # segments below the log start offset
    waiting_bytes: int = 0  # of closed segments, from a partition's first segment without a right snapshot on
    log_starts: LogStarts = field(default_factory=LogStarts)
    not_compared: int = 0  # snapshots of logs that begin in remote storage
    unread: int = 0  # closed segments whose snapshot could not be compared although the log begins locally
    lost_indexes: int = 0  # partitions that have a closed segment without an .index
    lost_below_log_start: int = 0  # partitions that have a segment without an .index below the log start
    lost_producers: list[str] = field(default_factory=list)  # one message for each replica that lost producers

    def add(self, scanned: Scanned) -> None:
        """Count one partition."""
        examination = scanned.examination
        partition, facts = examination.partition, examination.facts
        self.verdicts.update(each.verdict for each in scanned.readiness)
        self.snapshots.update(scanned.snapshots.values())
        is_continued = begins_below(partition) is True
        self.log_starts.count(partition.name, is_continued=is_continued, why=facts.log_start_unknown)
        if not facts.log_start_unknown:
            self.not_compared += list(scanned.snapshots.values()).count(SnapshotVerdict.NOT_COMPARED)
        if not (facts.internal or facts.compacted or facts.log_start_unknown):
            self._add_wanted(scanned)
        self.findings.extend(examination.findings)
        if scanned.lost_producers is not None:
            self.lost_producers.append(scanned.lost_producers.says(partition.name))
        self.deleted_segments += len(partition.deleted_segments)
        self._add_segments(scanned)

    def _add_wanted(self, scanned: Scanned) -> None:
        partition = scanned.examination.partition
        ignored = strays(partition) | _unread(scanned)
        self.wanted.update(verdict for offset, verdict in scanned.snapshots.items() if offset not in ignored)
        self.lost_indexes += lost_index(partition) is not None
        self.lost_below_log_start += lost_below_log_start(partition)

    def _add_segments(self, scanned: Scanned) -> None:
        is_waiting = False
        for segment, readiness in zip(scanned.examination.partition.segments, scanned.readiness, strict=True):
            verdict, snapshot = readiness.verdict, scanned.snapshots.get(segment.next_base_offset or 0)
            if verdict is Verdict.UNVERIFIED_SNAPSHOT and snapshot is not SnapshotVerdict.NOT_COMPARED:
                self.unread += 1
            is_waiting = is_waiting or verdict in _FOR_SNAPSHOTS
            if is_waiting and verdict is not Verdict.ACTIVE_SEGMENT:
                self.waiting_bytes += segment.log.size

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that decide the exit code."""
        yield from self.findings
        yield from self.errors
        # A file that could not be compared is a problem only if a closed segment needs it; see `unread`.
        for each in +self.wanted:
            if each is not SnapshotVerdict.UNVERIFIED:
                yield each
        yield from problems_of(self.verdicts, cleared={Verdict.UNVERIFIED_SNAPSHOT})
        if self.unread:
            yield Verdict.UNVERIFIED_SNAPSHOT
        if self.lost_indexes or self.lost_below_log_start:
            yield OtherProblem.LOST_INDEX
        if self.lost_producers:
            yield OtherProblem.REPLICA_WITHOUT_PRODUCERS
        if self.log_starts.unlocated:
            yield Verdict.UNKNOWN_LOG_START


def _unread(scanned: Scanned) -> frozenset[int]:
    """Return the offsets of snapshots that no broker will read: the segment is tiered, and a newer snapshot exists."""
    tiered: set[int] = set()
    for segment, readiness in zip(scanned.examination.segments, scanned.readiness, strict=True):
        if segment.next_base_offset is not None and readiness.verdict in IN_REMOTE_STORAGE:
            tiered.add(segment.next_base_offset)
    newest = max(scanned.examination.partition.snapshots, default=-1)
    return frozenset(tiered - {newest})
