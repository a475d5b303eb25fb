"""Judge the segments of one partition, and find the snapshot with which each segment would be tiered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tiersnap.snapshot.gate.copy_task import NO_BROKERS, BesideBrokers, BrokerAtWork
from tiersnap.snapshot.gate.judge import Readiness, judge
from tiersnap.snapshot.gate.trusted import COMPARED, Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import TO_UPLOAD, Verdict
from tiersnap.snapshot.log.coverage import RemoteCoverage
from tiersnap.snapshot.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.replay.snapshot_comparison import ExaminedSegment, computed

_NOT_REACHED = Comparison(SnapshotVerdict.UNVERIFIED, "not compared: the log is damaged below the offset of this file")


@dataclass(frozen=True, slots=True)
class JudgedSnapshot:
    """The snapshot at the end of a segment, or at the log end."""

    found: SnapshotAt | None  # the stored result for the offset; None if no replay reached it
    verdict: SnapshotVerdict  # the current verdict on the broker's file, or on the computed object that replaces it
    provenance: Provenance | None = None  # None for a file that is not trusted
    is_object: bool = False  # whether the segment is uploaded with the computed object instead of the broker's file

    @property
    def compared(self) -> SnapshotVerdict | None:
        """Return the result of the strict comparison of the snapshot file with the log; None without a comparison."""
        if self.found is None or self.found.comparison.compared not in COMPARED:
            return None
        return self.found.comparison.compared


@dataclass(frozen=True, slots=True)
class SegmentReadiness:
    """A segment with its verdict and the snapshot at its end."""

    facts: SegmentFacts
    readiness: Readiness
    snapshot: JudgedSnapshot

    @property
    def is_ready(self) -> bool:
        """Return whether the segment may be tiered now."""
        return self.readiness.verdict in TO_UPLOAD

    def as_uploaded(self) -> SegmentReadiness:
        """Return this segment with the verdict UPLOADED. Call it after the upload."""
        return self._with(
            Verdict.UPLOADED, "tiersnap uploaded the segment in this run; brokers read it after `tiersnap publish`"
        )

    def as_published(self) -> SegmentReadiness:
        """Return this segment with the verdict TIERED. Call it after the publication."""
        return self._with(Verdict.TIERED, "uploaded and published in this run")

    def as_found(self) -> SegmentReadiness:
        """Return this segment with the verdict IN_REMOTE. Call it if the upload found the segment in remote storage."""
        return self._with(
            Verdict.IN_REMOTE,
            "another copy attempt uploaded the segment during this run; the records of the segment were not read",
        )

    def _with(self, verdict: Verdict, reason: str) -> SegmentReadiness:
        return replace(self, readiness=Readiness(self.facts.base_offset, verdict, reason))


@dataclass(frozen=True)
class Policy:
    """The rules by which segments are judged."""

    replace: bool  # whether a computed object replaces an untrusted file
    expiry: BrokerExpiry
    # Whether only a scan window was read; if so, a broker's snapshot file below it is used without a comparison.
    is_bounded: bool = False
    beside: BesideBrokers = NO_BROKERS  # detects brokers that copy segments, so that these are left to them
    mends_indexes: bool = False  # whether the upload rebuilds wrong indexes of READY segments

    def judge(
        self,
        facts: PartitionFacts,
        partition: int,
        segments: Iterable[SegmentFacts],
        snapshots: Mapping[int, SnapshotAt],
        coverage: RemoteCoverage,
        refused: Mapping[int, str] = MappingProxyType({}),
    ) -> tuple[SegmentReadiness, ...]:
        """Return the segments of a partition, ascending, each with its verdict and snapshot.

        Args:
            partition: number of the partition.
            segments: ascending by base offset.
            snapshots: the replay's stored result for each snapshot offset.
            coverage: the offsets of the log's lineage in remote storage.
            refused: by base offset, why an upload refused a segment below a scan window.
        """
        tiered: list[ExaminedSegment] = []
        ends: list[SnapshotAt | None] = []
        for segment in segments:
            offset = segment.next_base_offset
            if offset is None:
                offset = facts.log_end_offset
            found = snapshots.get(offset)
            tiered.append(ExaminedSegment(segment, self._as_tiered(found)))
            ends.append(found)
        broker = self.beside.broker_at(facts.topic_id, partition, coverage.broker_wrote_at)
        verdicts = self._verdicts(facts, tiered, ends, coverage, broker, refused)
        judged: list[SegmentReadiness] = []
        for each, end, readiness in zip(tiered, ends, verdicts, strict=True):
            judged.append(SegmentReadiness(each.facts, readiness, self._judged(each, end)))
        return tuple(judged)

    def _verdicts(
        self,
        facts: PartitionFacts,
        tiered: list[ExaminedSegment],
        ends: list[SnapshotAt | None],
        coverage: RemoteCoverage,
        broker: BrokerAtWork | None,
        refused: Mapping[int, str],
    ) -> Iterable[Readiness]:
        unread: dict[int, str] = {}
        beyond_broker: set[int] = set()
        for segment, end in zip(tiered, ends, strict=True):
            if end is None:
                continue
            base = segment.facts.base_offset
            if self._is_unread(end):
                unread[base] = refused.get(base, "")
            # A broker's copy task fails at a segment without a snapshot file.
            if end.comparison.compared is SnapshotVerdict.MISSING:
                beyond_broker.add(base)
        return judge(
            facts,
            tiered,
            self.expiry,
            coverage=coverage,
            unread=unread,
            broker=broker,
            beyond_broker=beyond_broker,
            mends_indexes=self.mends_indexes,
        )

    def _judged(self, segment: ExaminedSegment, found: SnapshotAt | None) -> JudgedSnapshot:
        verdict = segment.snapshot.verdict(self.expiry)
        if found is None:
            return JudgedSnapshot(None, verdict)
        if self.is_object(found):
            return JudgedSnapshot(found, verdict, found.provenance, is_object=True)
        if self._is_taken(found):
            return JudgedSnapshot(found, verdict, Provenance.BROKER_UNVERIFIED)
        if found.comparison.verdict(self.expiry).is_trusted:
            return JudgedSnapshot(found, verdict, Provenance.BROKER)
        return JudgedSnapshot(found, verdict)

    def is_object(self, found: SnapshotAt) -> bool:
        """Return whether an upload sends the computed snapshot in the store instead of the broker's file."""
        verdict = found.comparison.verdict(self.expiry)
        is_instead = verdict is SnapshotVerdict.MISSING or (self.replace and not verdict.is_trusted)
        return found.stored is not None and is_instead

    def _as_tiered(self, found: SnapshotAt | None) -> Comparison:
        """Return the comparison of the snapshot that the upload sends: the broker's file, or the computed object."""
        if found is None:
            return _NOT_REACHED
        if self.is_object(found):
            return computed(found.provenance)
        return found.comparison

    def _is_taken(self, found: SnapshotAt) -> bool:
        """Return whether the upload takes the broker's file without a comparison.

        This is the case if the file is readable and below the scan window. If the producer state at the first local
        offset is unknown, return False: the replica may have been rebuilt, and its files may then lack producers.
        """
        is_read = found.file.file_crc32c is not None and found.comparison.compared is SnapshotVerdict.UNVERIFIED
        return self.is_bounded and is_read and not found.provenance.lacks_start

    def _is_unread(self, end: SnapshotAt) -> bool:
        """Return whether the segment that ends at this snapshot is below the scan window and was not read.

        Return False for a segment that ends at the first offset of the window: the replay has already proven which
        transactions are open at this offset.
        """
        if end.comparison.compared is SnapshotVerdict.UNVERIFIED:
            return self._is_taken(end)
        is_of_window = self.is_bounded and end.provenance is Provenance.COMPUTED_WITHIN_WINDOW
        return is_of_window and end.snapshot_offset < end.folded_from


def open_at(base_offset: int, before: SnapshotAt | None) -> OpenTransactions | None:
    """Return the transactions that are open at `base_offset`; None if they are unknown.

    Args:
        before: the replay's stored result for `base_offset`, or None.
    """
    if before is not None:
        return before.open_transactions
    if base_offset == 0:
        return ()  # no transaction is open before the first record
    return None
