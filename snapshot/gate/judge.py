"""Judge whether each segment of a partition may be tiered. If not, return the reason and the command for the next step.

The rules are the same as Kafka's. RemoteLogManager.RLMCopyTask copies a segment if the segment ends above the highest
remote offset and its next base offset <= last stable offset. It never copies the active segment, nor segments of
compacted or internal topics. LogSegmentData requires log, offset index, time index, producer snapshot and leader
epochs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tiersnap.snapshot.gate.copy_task import BrokerAtWork
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.gate.verdict import IN_REMOTE_STORAGE, TO_UPLOAD, Verdict
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, RemoteCoverage, contain, overlap
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.leader_epochs import joined
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.snapshot_comparison import ExaminedSegment

# Verdicts after which a later segment may be uploaded, as a broker continues above the highest remote offset.
_LETS_PASS = (IN_REMOTE_STORAGE | TO_UPLOAD) | {
    *(Verdict.GAP_IN_REMOTE, Verdict.ENCRYPTED_REMOTE, Verdict.LEFT_TO_BROKER, Verdict.INDEX_DAMAGED),
}

_NONE_UNREAD: Mapping[int, str] = MappingProxyType({})

NOT_PUBLISHED = "the records of __remote_log_metadata were read, and no COPY_SEGMENT_FINISHED record names the segment"
_UNFINISHED = "an earlier upload of tiersnap did not finish; the next upload finishes or replaces it"


@dataclass(frozen=True, slots=True)
class Readiness:
    """The verdict on a segment, with its reason."""

    base_offset: int
    verdict: Verdict
    reason: str

    @property
    def next_step(self) -> str:
        """Return the command that clears the verdict, or ""."""
        return NEXT_STEP[self.verdict]


def judge(
    partition: PartitionFacts,
    segments: Iterable[ExaminedSegment],
    expiry: BrokerExpiry,
    *,
    coverage: RemoteCoverage = NOTHING_REMOTE,
    unread: Mapping[int, str] = _NONE_UNREAD,
    broker: BrokerAtWork | None = None,
    beyond_broker: Collection[int] = (),
    mends_indexes: bool = False,
) -> Iterator[Readiness]:
    """Yield the verdicts on a partition's segments.

    Args:
        segments: ascending by base offset; the verdicts have the same order.
        coverage: offsets of the log's lineage in remote storage.
        unread: base offsets of the segments that are below a scan window and were not read. The value says why an
            upload refused the segment, or is "" if no upload refused it. The broker's snapshot files are used for these
            segments without a comparison.
        broker: the broker that copies the partition's segments. READY segments are left to this broker. None if no
            broker copies them.
        beyond_broker: base offsets of segments without a snapshot file, at which the broker's copy task fails. If the
            first segment that the broker would copy is one of these, no READY segment is left to the broker.
        mends_indexes: whether tiersnap uploads READY segments and rebuilds their wrong indexes.
    """
    blocked_by: Readiness | None = None
    known = tuple(segments)
    encrypted_by = "" if broker else coverage.encrypted_by
    size = sum(each.facts.size_bytes for each in known)
    held_back = _HeldBack(coverage, broker, beyond_broker, mends_indexes, expiry.now, size, unread)
    for examined in known:
        segment = examined.facts
        base, end = segment.base_offset, segment.next_base_offset
        found = judge_by_remote(base, end, partition.log_start_offset, coverage)
        if found is None:
            found = _local(partition, examined, blocked_by, expiry, encrypted_by, unread)
        verdict, reason = found
        if verdict is Verdict.UNVERIFIED_SNAPSHOT and segment.base_offset in unread:
            verdict = Verdict.READY
        held_back.newer_bytes -= segment.size_bytes
        if verdict is Verdict.READY:
            verdict, reason = held_back.judge(segment, reason)
        readiness = Readiness(segment.base_offset, verdict, reason)
        if blocked_by is None and verdict not in _LETS_PASS and not _is_to_finish(segment, coverage):
            blocked_by = readiness
        yield readiness


@dataclass(slots=True)
class _HeldBack:
    """A judge of segments for which `judge` found the verdict READY. Segments must be judged in ascending order.

    The verdict changes if a broker copies the segment, if remote storage is encrypted, or if an index is wrong.
    """

    coverage: RemoteCoverage
    broker: BrokerAtWork | None
    beyond_broker: Collection[int]
    mends_indexes: bool
    now: int
    newer_bytes: int  # bytes of the log after the segment that is judged
    unread: Collection[int]
    _has_left: bool = False

    def judge(self, segment: SegmentFacts, reason: str) -> tuple[Verdict, str]:
        """Return the final verdict and reason for a READY segment. `reason` explains READY."""
        # A broker never copies segments below the highest remote offset.
        if not _is_below(segment, self.coverage):
            left = self._left_to_broker(segment)
            if left is not None:
                return left
        if self.coverage.encrypted_by:
            return Verdict.ENCRYPTED_REMOTE, _encrypted(self.coverage.encrypted_by, reason)
        if segment.index_faults and not self.mends_indexes:
            return Verdict.INDEX_DAMAGED, "; ".join(segment.index_faults)
        if self.coverage.is_unfinished(segment.base_offset, segment.next_base_offset or 0):
            reason = f"{reason}; {_UNFINISHED}"
        if segment.base_offset in self.unread:
            return Verdict.BEFORE_WINDOW, reason
        return Verdict.READY, reason

    def _left_to_broker(self, segment: SegmentFacts) -> tuple[Verdict, str] | None:
        """Return the verdict and reason for a segment that a broker will copy; None if no broker copies it."""
        if segment.base_offset in self.beyond_broker and not self._has_left:
            self.broker = None
        if self.broker is None:
            return None
        self._has_left = True
        if segment.index_faults:
            return Verdict.INDEX_DAMAGED, f"{'; '.join(segment.index_faults)}; {self.broker.how}"
        why = self.broker.reason(segment.largest_timestamp, self.newer_bytes, self.now)
        return Verdict.LEFT_TO_BROKER, why


def judge_by_remote(base: int, end: int | None, log_start: int, coverage: RemoteCoverage) -> tuple[Verdict, str] | None:
    """Return (verdict, reason) if remote storage decides the verdict of a local segment, else None.

    Args:
        base: base offset of the segment.
        end: exclusive end offset; None for the active segment.
        log_start: log start offset of the partition.
    """
    if end is not None and coverage.has_segment(base, end, log_start):
        return judge_remote(max(base, log_start), end, coverage)
    if base in coverage.in_flight:
        return Verdict.COPY_IN_FLIGHT, "another copy attempt is uploading the segment now"
    if end is None or end > coverage.highest:
        return None
    if overlap(coverage.lost, base, end):
        return Verdict.GAP_IN_REMOTE, (
            "records of __remote_log_metadata name the remote segment, but some of its objects are missing"
        )
    if coverage.is_unfinished(base, end):
        return None
    return Verdict.GAP_IN_REMOTE, (
        f"remote storage ends at offset {coverage.highest} but lacks a part of this segment: remote retention "
        "deleted this part, or objects were lost. Brokers do not upload the segment again"
    )


def judge_remote(start: int, end: int, coverage: RemoteCoverage) -> tuple[Verdict, str]:
    """Return (verdict, reason) for a segment in remote storage.

    Both depend on the `__remote_log_metadata` records that were read.

    Args:
        start: base offset of the segment, or the log start offset if that is higher.
        end: exclusive end offset of the segment.
        coverage: coverage of the log; must contain all offsets from `start` to `end`.
    """
    if contain(coverage.published, start, end):
        return Verdict.TIERED, "COPY_SEGMENT_FINISHED records cover the offsets of the segment"
    is_read = not overlap(coverage.unread, start, end)
    if contain(joined([*coverage.published, *coverage.ours]), start, end):
        if is_read:
            return Verdict.UPLOADED, f"tiersnap uploaded the segment; {NOT_PUBLISHED}"
        return Verdict.UPLOADED, (
            "tiersnap uploaded the segment; not all records of __remote_log_metadata were read, so it is unknown "
            "whether brokers know the segment"
        )
    if is_read:
        return Verdict.IN_REMOTE, (
            f"a failed copy attempt of a broker left the segment in remote storage; {NOT_PUBLISHED}"
        )
    return Verdict.IN_REMOTE, (
        "a broker uploaded the segment; not all records of __remote_log_metadata were read, so it is unknown whether "
        "the broker finished the copy"
    )


def _is_below(segment: SegmentFacts, coverage: RemoteCoverage) -> bool:
    return segment.next_base_offset is not None and segment.next_base_offset <= coverage.highest


def _is_to_finish(segment: SegmentFacts, coverage: RemoteCoverage) -> bool:
    """Return whether only an unfinished upload of tiersnap covers the segment. The next upload finishes it."""
    end = segment.next_base_offset or 0
    return _is_below(segment, coverage) and coverage.is_unfinished(segment.base_offset, end)


def _local(
    partition: PartitionFacts,
    examined: ExaminedSegment,
    blocked_by: Readiness | None,
    expiry: BrokerExpiry,
    encrypted_by: str,
    unread: Mapping[int, str],
) -> tuple[Verdict, str]:
    segment = examined.facts
    if segment.next_base_offset is None:
        return Verdict.ACTIVE_SEGMENT, "still being written"
    obstacle = _of_topic(partition) or _of_damage(segment) or _of_unknown_log(partition, segment, unread)
    if obstacle is not None:
        return obstacle
    if blocked_by is not None:
        return Verdict.GAP_BEFORE, f"the earlier segment {blocked_by.base_offset} is {blocked_by.verdict}"
    if partition.last_stable_offset is None or segment.next_base_offset > partition.last_stable_offset:
        return Verdict.ABOVE_LSO, _above_stable(partition, segment.next_base_offset)
    if segment.missing_parts:
        return Verdict.MISSING_INDEX, "no " + ", no ".join(segment.missing_parts)
    found, reason = examined.snapshot.verdict(expiry), examined.snapshot.reason(expiry)
    if encrypted_by:
        return Verdict.ENCRYPTED_REMOTE, _encrypted(encrypted_by, reason)
    if found in _SNAPSHOT:
        return _SNAPSHOT[found], reason
    return Verdict.READY, "; ".join([reason, *_notes(segment)])


def _of_topic(partition: PartitionFacts) -> tuple[Verdict, str] | None:
    if partition.internal:
        return Verdict.INTERNAL_TOPIC, partition.internal
    if partition.compacted:
        return Verdict.COMPACTED_TOPIC, partition.compacted
    if partition.topic_id is None:
        return Verdict.TOPIC_ID_UNKNOWN, "partition.metadata does not exist (Kafka before 2.8), or has no topic id"
    return None


def _of_damage(segment: SegmentFacts) -> tuple[Verdict, str] | None:
    if segment.damage_kind in (FindingKind.PERMISSION_DENIED, FindingKind.DELETED_FILE):
        return Verdict.UNREADABLE_SEGMENT, segment.damage
    if segment.damage:
        return Verdict.CORRUPT_SEGMENT, segment.damage
    return None


def _of_unknown_log(
    partition: PartitionFacts, segment: SegmentFacts, unread: Mapping[int, str]
) -> tuple[Verdict, str] | None:
    if partition.log_start_unknown:
        return Verdict.UNKNOWN_LOG_START, f"the log start is unknown: {partition.log_start_unknown}"
    if unknown := partition.transactions_unknown or unread.get(segment.base_offset):
        return Verdict.UNKNOWN_TRANSACTIONS, unknown
    return None


def _above_stable(partition: PartitionFacts, end: int) -> str:
    stable = "unknown" if partition.last_stable_offset is None else partition.last_stable_offset
    why = partition.unstable_because or "the high watermark is below the end of the segment"
    return f"the segment ends at offset {end}, but the last stable offset is {stable}: {why}"


_SNAPSHOT = {
    SnapshotVerdict.MISSING: Verdict.MISSING_SNAPSHOT,
    SnapshotVerdict.UNVERIFIED: Verdict.UNVERIFIED_SNAPSHOT,
    SnapshotVerdict.NOT_COMPARED: Verdict.UNVERIFIED_SNAPSHOT,
    SnapshotVerdict.CORRUPT: Verdict.CORRUPT_SNAPSHOT,
    SnapshotVerdict.SUSPECT: Verdict.SUSPECT_SNAPSHOT,
}


def _encrypted(manifest: str, reason: str) -> str:
    return (
        f"the plugin encrypts segments, as the manifest {manifest} shows, but tiersnap would upload plain text; "
        f"snapshot: {reason}"
    )


def _notes(segment: SegmentFacts) -> Iterator[str]:
    if segment.rebuilt_parts:
        yield f"{' and '.join(segment.rebuilt_parts)}: the upload rebuilds the index files"
    if segment.index_faults:
        yield f"{'; '.join(segment.index_faults)}: the upload rebuilds the index"
    if segment.has_gaps:
        yield "records are missing inside the segment, for example because of compaction"
