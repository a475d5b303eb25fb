"""What must be read for the state at an offset: everything, the window that KIP-952 proposed, or what is new.

KIP-952's rejected alternative 5, archiving no snapshots, is a full replay each time one is wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiersnap.snapshot.replay.facts import SegmentFacts


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """Bytes to read for the state at `offset`.

    Attributes:
        full: all below it.
        bounded: from `window_offset` on.
        window_offset: base offset of the first segment whose largest timestamp is within the expiration, or of the
            one with the beginning of the oldest transaction open at `offset`; `offset` itself where neither is.
        incremental: from `nearest_offset` on.
        nearest_offset: of the nearest snapshot to start from, the log's first offset without one.
    """

    offset: int
    full: int
    bounded: int
    window_offset: int
    incremental: int
    nearest_offset: int


def replay_cost(
    segments: Sequence[SegmentFacts],
    offset: int,
    *,
    now: int,
    expiration: int | None,
    first_open_offset: int | None,
    starts: Collection[int],
) -> ReplayCost:
    """What the state at a segment's end costs.

    Args:
        segments: ascending.
        offset: exclusive end offset of one of them.
        now: ms.
        expiration: ms, producer.id.expiration.ms; None: nothing expires, and the window is the whole log.
        first_open_offset: of the oldest transaction open at `offset`, None without one.
        starts: offsets of the snapshots that a replay may start from.
    """
    below = [segment for segment in segments if segment.base_offset < offset]
    first = below[0].base_offset if below else offset
    window = next((each.base_offset for each in below if _is_recent(each, now, expiration)), offset)
    if first_open_offset is not None:
        holding = [each.base_offset for each in below if each.base_offset <= first_open_offset]
        window = min(window, holding[-1] if holding else first)
    nearest = max((start for start in starts if first <= start <= offset), default=first)
    sums = [sum(each.size for each in below if each.base_offset >= start) for start in (first, window, nearest)]
    return ReplayCost(offset, sums[0], sums[1], window, sums[2], nearest)


def _is_recent(segment: SegmentFacts, now: int, expiration: int | None) -> bool:
    """Whether it may hold a record of a producer that has not expired; one without a time may."""
    time = segment.largest_timestamp
    return expiration is None or time < 0 or now - time < expiration


def read_ms(size: int, bytes_per_second: int) -> int:
    """Milliseconds to read so many bytes at a rate, rounded up."""
    return -(-size * 1000 // bytes_per_second)
