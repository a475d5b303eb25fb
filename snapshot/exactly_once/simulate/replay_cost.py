"""The bytes that a replay up to an offset reads: everything, the window that KIP-952 proposed, or new segments.

KIP-952's rejected alternative 5, archiving no snapshots, is a full replay each time one is wanted. The KIP's own
proposal begins inside the log, at an offset W, and knows of each producer what an empty snapshot at W would leave a
follower. Of the producers that a broker still keeps, each one that it would miss or know less of has a reason:

    OPEN_TXN_OLDER       the transaction began before the window: its first offset is too high, or missing
    COORD_EPOCH_MISSING  the last marker lies before the window, the data inside
    EPOCH_ONLY_MARKER    only markers lie inside: the last sequence is not known, and the next write is refused
    TIMESTAMP_SKEW       alive by its own timestamps, and nothing of it lies inside the window
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from tiersnap.snapshot.exactly_once.simulate.exposure import ProducersAtRisk
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import ReplayCost
from tiersnap.snapshot.replay.facts import SegmentFacts

DEFAULT_READ_RATE = 500_000_000  # bytes a second


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
    """Return what the state at a segment's end costs.

    Args:
        segments: ascending.
        offset: exclusive end offset of one of them.
        now: ms.
        expiration: ms, producer.id.expiration.ms; None: nothing expires, and the window is the whole log.
        first_open_offset: of the oldest transaction open at `offset`, None without one.
        starts: offsets of the snapshots that a replay may start from.
        read_rate: bytes a second.
    """
    below = [segment for segment in segments if segment.base_offset < offset]
    first = below[0].base_offset if below else offset
    window = next((each.base_offset for each in below if _is_recent(each, now, expiration)), offset)
    if first_open_offset is not None:
        holding = [each.base_offset for each in below if each.base_offset <= first_open_offset]
        window = min(window, holding[-1] if holding else first)
    nearest = max((start for start in starts if first <= start <= offset), default=first)
    sums = [sum(each.size_bytes for each in below if each.base_offset >= start) for start in (first, window, nearest)]
    full, bounded, incremental = ((size, -(-size * 1000 // read_rate)) for size in sums)
    return ReplayCost(*full, *bounded, *incremental, window, nearest)


def _is_recent(segment: SegmentFacts, now: int, expiration: int | None) -> bool:
    """Return whether it may hold a record of a producer that has not expired; one without a time may."""
    time = segment.largest_timestamp
    return expiration is None or time < 0 or now - time < expiration


class Mismatch(StrEnum):
    """The reason why a bounded replay differs from the full one for a producer."""

    OPEN_TXN_OLDER = "OPEN_TXN_OLDER"
    COORD_EPOCH_MISSING = "COORD_EPOCH_MISSING"
    EPOCH_ONLY_MARKER = "EPOCH_ONLY_MARKER"
    TIMESTAMP_SKEW = "TIMESTAMP_SKEW"


def mismatches(producers: ProducersAtRisk, window_offset: int) -> dict[Mismatch, int]:
    """Return the number of producers by reason, without those that are 0; one with several reasons counts for each.

    Args:
        window_offset: where the replay begins, at the beginning of a run.
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
