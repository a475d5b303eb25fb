"""The time until retention has deleted every segment without a right snapshot.

KIP-952's rejected alternatives 3 and 4 are to tier no segment until that time, or to refuse to enable tiering until
then. Waiting helps only before remote storage is enabled. Afterwards a local segment is deleted only after its upload,
and a broker cannot upload a segment without a snapshot.

Follows kafka.log.UnifiedLog.deleteOldSegments. The oldest segment is deleted if its largest timestamp is older than
retention.ms, or if the segments after it have at least retention.bytes. Then the rule is applied to the next segment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tiersnap.snapshot.exactly_once.simulate.risk_kinds import Wait, Waiting
from tiersnap.snapshot.replay.facts import SegmentFacts


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """The retention of a topic. None means no limit."""

    ms: int | None  # retention.ms
    bytes: int | None = None  # retention.bytes
    is_compacted: bool = False  # whether the log cleaner removes records, and retention does not


def write_rate(segments: Sequence[SegmentFacts], *, now: int) -> float | None:
    """Return the bytes per ms that were written since the log's first segment ended, None if no time passed.

    Args:
        segments: segments, ascending.
        now: epoch ms. The rate of an idle log decreases with time.
    """
    dated = [segment for segment in segments if segment.largest_timestamp >= 0]
    if len(dated) < 2:
        return None
    passed = max(now, dated[-1].largest_timestamp) - dated[0].largest_timestamp
    if passed <= 0:
        return None
    return _bytes_after(segments, dated[0].base_offset) / passed


def _bytes_after(segments: Sequence[SegmentFacts], base_offset: int) -> int:
    return sum(segment.size_bytes for segment in segments if segment.base_offset > base_offset)


def waiting(
    segments: Sequence[SegmentFacts],
    blocking: Collection[int],
    retention: TopicRetention,
    *,
    now: int,
    rate: float | None,
    is_tiering_enabled: bool = False,
) -> Waiting:
    """Return the cost of a wait for retention.

    Args:
        segments: segments, ascending.
        blocking: base offsets of the closed segments whose end has no right snapshot.
        now: epoch ms.
        rate: result of `write_rate`.
        is_tiering_enabled: whether remote storage is already enabled.
    """
    if not blocking:
        return Waiting(Wait.NOTHING_TO_WAIT_FOR)
    first, last = min(blocking), max(blocking)
    untiered = sum(
        each.size_bytes for each in segments if each.base_offset >= first and each.next_base_offset is not None
    )
    stuck = Waiting(Wait.STUCK_TIERING_ENABLED, len(blocking), first, untiered_bytes=untiered)
    if is_tiering_enabled:
        return stuck
    ready_at = _removed_at(segments, last, retention, now, rate)
    if ready_at is None:
        return replace(stuck, wait=Wait.FOR_EVER)
    wait_ms = max(0, ready_at - now)
    grows_by = None if rate is None else round(rate * wait_ms)
    return replace(stuck, wait=Wait.WAITING, wait_ms=wait_ms, ready_at=ready_at, grows_by_bytes=grows_by)


def _removed_at(
    segments: Sequence[SegmentFacts], last: int, retention: TopicRetention, now: int, rate: float | None
) -> int | None:
    """Return the time (epoch ms) at which retention has deleted all segments up to `last`, None for never."""
    if retention.is_compacted:
        return None
    behind = sum(segment.size_bytes for segment in segments)
    ready_at = now
    for segment in segments:
        if segment.base_offset > last:
            break
        behind -= segment.size_bytes
        found = _too_old_at(segment, retention), _too_much_at(behind, retention, now, rate)
        times = [time for time in found if time is not None]
        if not times:
            return None
        ready_at = max(ready_at, min(times))
    return ready_at


def _too_old_at(segment: SegmentFacts, retention: TopicRetention) -> int | None:
    if retention.ms is None or segment.largest_timestamp < 0:
        return None
    return segment.largest_timestamp + retention.ms


def _too_much_at(behind: int, retention: TopicRetention, now: int, rate: float | None) -> int | None:
    """Return when retention.bytes deletes a segment. `behind` is the number of bytes in the later segments."""
    if retention.bytes is None:
        return None
    missing = retention.bytes - behind
    if missing <= 0:
        return now
    if not rate:
        return None
    return now + round(missing / rate)
