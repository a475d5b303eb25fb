"""Kinds of numbers that `simulate --risk` reckons for a snapshot offset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.gate.trusted import SnapshotVerdict


class SnapshotCause(StrEnum):
    """The reason why a snapshot offset has no right snapshot, as far as the files beside the log tell."""

    PRE_2_8 = "PRE_2_8"  # none there, and none below: brokers before 2.8 keep those of the last two segments alone
    GAP_AFTER_ALIGNED = "GAP_AFTER_ALIGNED"  # none there, but one below: lost or deleted since
    CORRUPT = "CORRUPT"  # no broker can read it
    EMPTY_WRONG = "EMPTY_WRONG"  # it holds no producer, and the log has one that a broker would keep
    EMPTY_TRUE = "EMPTY_TRUE"  # it holds no producer, and rightly so
    CONTENT_DIFF = "CONTENT_DIFF"  # readable, contradicts the log
    UNVERIFIED = "UNVERIFIED"  # never compared, or not with the beginning of the log


@dataclass(frozen=True, slots=True)
class Exposure:
    """The producers that an empty snapshot at an offset would expose now, counted."""

    producers: int  # named below the offset, and alive now
    lost: int  # of these, not named again: the follower does not know them
    degraded: int  # of these, known again, but with less than the leader knows
    # Of both, those whose last batch the follower would append once more if it was sent again: it does not know them,
    # or knows a marker of them alone.
    doubled: int
    doubled_automatically: int  # those that wrote so lately that a client may send it again by itself
    doubled_records: int  # in the batches that the leader knows of the doubled, at most five each
    doubled_bytes: int | None  # of these batches, None if no header says it
    fencing_lost: int  # of the lost, those with an epoch above 0: an instance that was fenced could write
    coordinator_epochs_lost: int  # of all, those whose last marker is forgotten: a fenced coordinator could write one
    open_transactions_lost: int  # of the lost and the degraded, those whose open transaction began below the offset
    # Until the last of the lost is dropped: then the empty snapshot says no less than the true one. 0 if nobody is
    # lost, None if one has an open transaction or nothing expires.
    exposed_ms: int | None
    producer_ms: int  # sum over the lost of the time until a broker drops them by itself


@dataclass(slots=True)
class Crossing:
    """The transactions that are open at an offset; all counts are exact."""

    # Those that are aborted behind it; `aborted_records` and `aborted_bytes` lie before it, and consumers that read
    # committed data would get them.
    aborted: int = 0
    aborted_records: int = 0
    aborted_bytes: int = 0
    beginning_late: int = 0  # those that write on behind it: they would seem to begin there
    undecided: int = 0  # those that the log shows no marker of


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """Bytes to read for the state at an offset, and ms at the read rate."""

    full_bytes: int  # all below it; `full_ms` the time
    full_ms: int
    bounded_bytes: int  # from `window_offset` on; likewise `bounded_ms`
    bounded_ms: int
    incremental_bytes: int  # from `nearest_offset` on; likewise `incremental_ms`
    incremental_ms: int
    # Base offset of the first segment whose largest timestamp is within the expiration, or of the one with the
    # beginning of the oldest transaction open at the offset; the offset itself without either.
    window_offset: int
    nearest_offset: int  # of the nearest snapshot to start from, the log's first offset without one


@dataclass(frozen=True, slots=True)
class RiskedBoundary:
    """One segment's end."""

    offset: int
    verdict: SnapshotVerdict  # of the snapshot there, as it counts now
    cause: SnapshotCause | None  # why it is not right, or is empty; None if all is well
    exposure: Exposure | None  # of an empty snapshot there; None if nothing was read from there on
    crossing: Crossing | None  # the transactions open there; None without headers
    opened: int | None  # how many transactions are open there, None if nobody knows
    cost: ReplayCost

    @property
    def is_blocked(self) -> bool:
        """Return whether the segment that ends here has no right snapshot."""
        return not self.verdict.is_trusted

    @property
    def severity(self) -> tuple[int, int, int]:
        """Greater is worse: producers that would write twice, that would be lost, that would be half known."""
        found = self.exposure
        return (0, 0, 0) if found is None else (found.doubled, found.lost, found.degraded)
