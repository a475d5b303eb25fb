"""What a replay that begins inside the log gets wrong: KIP-952's own proposal, held against the full replay.

A replay from an offset W knows of each producer what an empty snapshot at W would leave a follower. Of the producers
that a broker still keeps, each one that it would miss or know less of has a reason:

    OPEN_TXN_OLDER       the transaction began before the window: its first offset is too high, or missing
    COORD_EPOCH_MISSING  the last marker lies before the window, the data inside
    EPOCH_ONLY_MARKER    only markers lie inside: the last sequence is not known, and the next write is refused
    TIMESTAMP_SKEW       alive by its own timestamps, and nothing of it lies inside the window
"""

from __future__ import annotations

from enum import StrEnum

from tiersnap.snapshot.exactly_once.risk.exposure import ProducersAtRisk


class Mismatch(StrEnum):
    """Why a bounded replay differs from the full one for a producer."""

    OPEN_TXN_OLDER = "OPEN_TXN_OLDER"
    COORD_EPOCH_MISSING = "COORD_EPOCH_MISSING"
    EPOCH_ONLY_MARKER = "EPOCH_ONLY_MARKER"
    TIMESTAMP_SKEW = "TIMESTAMP_SKEW"


def mismatches(producers: ProducersAtRisk, window_offset: int) -> dict[Mismatch, int]:
    """Producers by reason, without those that are 0; one with several reasons counts for each.

    Args:
        window_offset: where the replay begins, at the beginning of a run.
    """
    is_seen = producers.last_seen >= window_offset
    is_open_before = (producers.opened >= 0) & (producers.opened < window_offset)
    found = {
        Mismatch.OPEN_TXN_OLDER: is_open_before,
        Mismatch.COORD_EPOCH_MISSING: is_seen
        & producers.has_coordinator_epoch
        & (producers.last_marker < window_offset),
        Mismatch.EPOCH_ONLY_MARKER: is_seen & producers.has_batch & (producers.last_offset < window_offset),
        Mismatch.TIMESTAMP_SKEW: ~is_seen & ~is_open_before,
    }
    return {reason: int(mask.sum()) for reason, mask in found.items() if mask.any()}
