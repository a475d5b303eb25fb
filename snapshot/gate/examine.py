"""Everything to be said of one partition: its boundaries, its segments' verdicts, its findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pyarrow import fs

from tiersnap.snapshot.gate.readiness import PartitionFacts, Readiness, SegmentFacts, judge
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import INTERNAL_COMPACTED_TOPICS, Partition, Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.state.carry import Boundary
from tiersnap.snapshot.state.partition_replay import Replay, local_replay
from tiersnap.snapshot.state.trust import DEFAULT_PRODUCER_EXPIRATION_MS, Comparison, SnapshotVerdict


@dataclass(frozen=True, slots=True)
class Examination:
    """What is known of a partition after a replay.

    Attributes:
        snapshots: verdict by offset, of every aligned offset that was reached and of every file that is there.
        readiness: one a segment, ascending.
    """

    partition: Partition
    replay: Replay
    snapshots: dict[int, Comparison]
    readiness: tuple[Readiness, ...]
    findings: tuple[Finding, ...]


def examine(
    filesystem: fs.FileSystem,
    partition: Partition,
    *,
    check_crc: bool = True,
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS,
    on_boundary: Callable[[Boundary], None] | None = None,
) -> Examination:
    """Replay a partition and judge it; `on_boundary` sees each state on the way (ascending offsets)."""
    replay, boundaries = local_replay(
        filesystem, partition, check_crc=check_crc, producer_expiration=producer_expiration
    )
    snapshots: dict[int, Comparison] = {}
    for boundary in boundaries:
        snapshots[boundary.offset] = boundary.found
        if on_boundary is not None:
            on_boundary(boundary)
    return conclude(partition, replay, snapshots, ())


def conclude(
    partition: Partition, replay: Replay, snapshots: dict[int, Comparison], tiered: Collection[int]
) -> Examination:
    """What a finished replay says of the partition.

    Args:
        snapshots: verdict on the snapshot at each offset that was reached, as it will be when tiering.
        tiered: base offsets of segments that are in remote storage.
    """
    # A broker writes one at the log end when it stops; no segment needs it, so its absence is no news.
    bases = {segment.base_offset for segment in partition.segments}
    is_missing = SnapshotVerdict.MISSING
    known = {offset: found for offset, found in snapshots.items() if offset in bases or found.verdict is not is_missing}
    for offset in partition.snapshots:
        known.setdefault(offset, unknown(replay, offset))
    has_gaps = any(end.has_gaps for end in replay.ends.values())
    # The cleaner leaves a closed segment of 0 bytes where no record of it survived; elsewhere one is damage.
    may_be_empty = bool(compaction_reason(partition, has_gaps=has_gaps))
    damage = (end.finding for end in replay.ends.values() if end.finding)
    findings = [
        *partition.findings,
        *(each for each in damage if not (may_be_empty and each.kind is FindingKind.EMPTY_SEGMENT)),
    ]
    if replay.refusal is not None:
        path, message = partition.path, replay.refusal.message
        findings.append(Finding(FindingKind.NON_TRANSACTIONAL_IN_TRANSACTION, path, -1, message))
    readiness = judge(
        partition_facts(partition, replay, has_gaps),
        [_segment_facts(partition, segment, replay, known, tiered) for segment in partition.segments],
    )
    return Examination(partition, replay, dict(sorted(known.items())), tuple(readiness), tuple(findings))


def unknown(replay: Replay, offset: int) -> Comparison:
    """The verdict on the snapshot at `offset`, which the replay did not reach."""
    segments = replay.partition.segments
    if segments and offset <= segments[0].base_offset:
        reason = f"lies below the log, which begins at {segments[0].base_offset}: a broker deletes it when it starts"
    elif replay.damage is not None:
        reason = f"not comparable: the log is damaged below it ({replay.damage.kind})"
    elif replay.refusal is not None:
        reason = f"not comparable: {replay.refusal.message}"
    else:
        reason = f"lies above the log end offset {replay.log_end}"
    return Comparison(SnapshotVerdict.UNKNOWN, reason)


def compaction_reason(partition: Partition, *, has_gaps: bool) -> str:
    """Why the topic counts as compacted (topic configuration is not on disk), or ""."""
    if partition.topic in INTERNAL_COMPACTED_TOPICS:
        return "internal topic, compacted"
    if partition.cleaner_offset is not None:
        return f"the cleaner passed offset {partition.cleaner_offset}"
    return "records are missing inside its segments: the cleaner removed them" if has_gaps else ""


def partition_facts(partition: Partition, replay: Replay, has_gaps: bool) -> PartitionFacts:
    """The partition as the gate sees it."""
    if partition.high_watermark is None:
        unstable = "replication-offset-checkpoint does not name this partition"
    elif replay.unstable_from is not None:
        unstable = f"a transaction is open since offset {replay.unstable_from}"
    else:
        unstable = f"the high watermark is {replay.high_watermark}"
    return PartitionFacts(
        topic_id=partition.topic_id,
        compacted=compaction_reason(partition, has_gaps=has_gaps),
        last_stable_offset=replay.last_stable_offset,
        unstable_because=unstable,
    )


def missing_parts(partition: Partition, segment: Segment) -> tuple[str, ...]:
    """Parts of a remote segment, besides log and snapshot, that are mandatory and absent, or are no whole entries."""
    indexes = (
        ("offset index", segment.offset_index, 8),
        ("time index", segment.time_index, 12),
        ("transaction index", segment.transaction_index, 34),
    )
    parts = [name for name, file, _ in indexes[:2] if file is None]
    parts += [
        f"whole {name}: {file.size} bytes are no multiple of {length}"
        for name, file, length in indexes
        if file is not None and file.size % length
    ]
    if not has_leader_epoch(partition.leader_epochs, segment.next_base_offset):
        parts.append("leader epochs")
    return tuple(parts)


def has_leader_epoch(epochs: Iterable[tuple[int, int]] | None, next_base_offset: int | None) -> bool:
    """Whether some leader epoch began below the segment's end, so that the segment has at least one."""
    return any(next_base_offset is None or start < next_base_offset for _, start in epochs or ())


def damage_of(end: SegmentEnd | None) -> str:
    """Text of what is wrong with the segment file, or ""."""
    if end is None or end.finding is None:
        return ""
    return f"{end.finding.kind} at byte {max(end.finding.position, 0)}: {end.finding.message}"


def _segment_facts(
    partition: Partition,
    segment: Segment,
    replay: Replay,
    snapshots: dict[int, Comparison],
    tiered: Collection[int],
) -> SegmentFacts:
    end = replay.ends.get(segment.base_offset)
    following = segment.next_base_offset
    found = snapshots.get(following) if following is not None else None
    if found is None:
        found = unknown(replay, following or replay.log_end)
    damage = damage_of(end)
    refused = replay.refusal is not None and end is not None and replay.refusal.offset <= end.last_offset
    if not damage and refused and replay.refusal is not None:
        damage = replay.refusal.message
    return SegmentFacts(
        base_offset=segment.base_offset,
        next_base_offset=following,
        size=segment.log.size,
        is_tiered=segment.base_offset in tiered,
        missing_parts=missing_parts(partition, segment),
        damage=damage,
        snapshot=found.verdict,
        snapshot_reason=found.reason,
    )
