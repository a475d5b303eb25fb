"""The bytes that a replay up to an offset reads: the whole log, KIP-952's window, or segments above a snapshot.

KIP-952's rejected alternative 5 archives no snapshots, so each snapshot requires a full replay. The KIP proposes a
bounded replay instead. It begins without any producer state, at an offset W inside the log. The bounded replay misses
active producers, or knows less about them than a full replay, for these reasons:

    OPEN_TXN_OLDER       the transaction began below the window: the bounded replay finds a later beginning, or none
    COORD_EPOCH_MISSING  the window has data batches of the producer, but its last marker is below the window
    EPOCH_ONLY_MARKER    the window has only markers of the producer: its last sequence is unknown, and its next write
                         is refused
    TIMESTAMP_SKEW       the producer is active by its timestamp, but has no record inside the window
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from tiersnap.snapshot.exactly_once.simulate.exposure import ProducersAtRisk
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import ReplayCost
from tiersnap.snapshot.replay.facts import SegmentFacts

DEFAULT_READ_RATE = 500_000_000  # bytes per second


def replay_cost(
    segments: Sequence[SegmentFacts],
    offset: int,
    *,
    now: int,
    expiration: int | None,
    first_open_offset: int | None = None,
    starts: Collection[int] = (),
    read_rate: int = DEFAULT_READ_RATE,
) -> ReplayCost:
    """Return the costs of three replays (full, bounded, incremental) that compute the state at a segment's end.

    Args:
        segments: segments, ascending.
        offset: end offset of a segment (exclusive).
        now: epoch ms.
        expiration: ms, producer.id.expiration.ms. None if producers never expire, so that the window is the whole log.
        first_open_offset: first offset of the oldest transaction that is open at `offset`; None if there is none.
        starts: offsets of the snapshots that a replay may start from.
        read_rate: bytes per second.
    """
    below = [segment for segment in segments if segment.base_offset < offset]
    first = below[0].base_offset if below else offset
    window = _first_recent(below, now, expiration, otherwise=offset)
    if first_open_offset is not None:
        window = min(window, _holder(below, first_open_offset, otherwise=first))
    nearest = _nearest(starts, first, offset)

    def cost_from(start: int) -> tuple[int, int]:
        size = sum(each.size_bytes for each in below if each.base_offset >= start)
        return size, -(-size * 1000 // read_rate)

    return ReplayCost(*cost_from(first), *cost_from(window), *cost_from(nearest), window, nearest)


def _nearest(starts: Iterable[int], first: int, offset: int) -> int:
    """Return the highest start from `first` up to `offset` (inclusive), or `first` if there is none."""
    return max((start for start in starts if first <= start <= offset), default=first)


def _first_recent(segments: Sequence[SegmentFacts], now: int, expiration: int | None, *, otherwise: int) -> int:
    """Return the base offset of the first segment that may have a record of an unexpired producer.

    If no segment may have one, return `otherwise`.
    """
    for segment in segments:
        time = segment.largest_timestamp
        if expiration is None or time < 0 or now - time < expiration:
            return segment.base_offset
    return otherwise


def _holder(segments: Sequence[SegmentFacts], offset: int, *, otherwise: int) -> int:
    """Return the base offset of the segment that contains `offset`, or `otherwise` if there is none."""
    return max((each.base_offset for each in segments if each.base_offset <= offset), default=otherwise)


class Mismatch(StrEnum):
    """The reason why a bounded replay and a full replay disagree about a producer."""

    OPEN_TXN_OLDER = "OPEN_TXN_OLDER"
    COORD_EPOCH_MISSING = "COORD_EPOCH_MISSING"
    EPOCH_ONLY_MARKER = "EPOCH_ONLY_MARKER"
    TIMESTAMP_SKEW = "TIMESTAMP_SKEW"


def mismatches(producers: ProducersAtRisk, window_offset: int) -> dict[Mismatch, int]:
    """Return the number of producers by reason, without zeros. A producer with several reasons counts for each of them.

    Args:
        window_offset: first offset of the bounded replay. A range of batches must begin at this offset.
    """
    is_seen = producers.last_seen >= window_offset
    is_open_before = (producers.opened >= 0) & (producers.opened < window_offset)
    is_marked_before = producers.has_coordinator_epoch & (producers.last_marker < window_offset)
    found = {
        Mismatch.OPEN_TXN_OLDER: is_open_before,
        Mismatch.COORD_EPOCH_MISSING: is_seen & is_marked_before,
        Mismatch.EPOCH_ONLY_MARKER: is_seen & producers.has_batch & (producers.last_offset < window_offset),
        Mismatch.TIMESTAMP_SKEW: ~is_seen & ~is_open_before,
    }
    return {reason: int(mask.sum()) for reason, mask in found.items() if mask.any()}
