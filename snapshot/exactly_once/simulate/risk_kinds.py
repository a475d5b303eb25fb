"""Rows of `simulate --risk`, one a partition or one a boundary, alike from a log directory and from a warehouse.

Times named `_ms` are durations. `exposed_ms` is null if the exposure never ends by itself, `wait_ms` if no waiting
helps. Counts without a unit are producers or segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.rows import Int32
from tiersnap.snapshot.units import human_bytes, human_duration


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """A replica of a partition: its log directory as the user names it, and its topic and number."""

    log_dir: str
    topic: str
    partition: Int32

    @property
    def name(self) -> str:
        """Return `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @property
    def order(self) -> tuple[str, int, str]:
        """Return the key that sorts the replicas of a partition together."""
        return self.topic, self.partition, self.log_dir


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

    @property
    def in_words(self) -> str:
        """Return the bytes of the three replays."""
        return ", ".join(map(human_bytes, (self.full_bytes, self.bounded_bytes, self.incremental_bytes)))


@dataclass(frozen=True, slots=True)
class RiskedBoundary:
    """One segment's end."""

    offset: int
    snapshot: SnapshotVerdict  # of the snapshot there, as it counts now
    cause: SnapshotCause | None  # why it is not right, or is empty; None if all is well
    exposure: Exposure | None  # of an empty snapshot there; None if the log was not read from there on
    open_transactions: int | None  # open at the offset, None if unknown
    crossing: Crossing | None  # the transactions open there; None without headers
    cost: ReplayCost

    @property
    def is_blocked(self) -> bool:
        """Return whether the segment that ends here has no right snapshot."""
        return not self.snapshot.is_trusted

    @property
    def severity(self) -> tuple[int, int, int]:
        """Greater is worse: producers that would write twice, that would be lost, that would be half known."""
        found = self.exposure
        return (0, 0, 0) if found is None else (found.doubled, found.lost, found.degraded)


class Wait(StrEnum):
    """The state of a partition that would wait."""

    NOTHING_TO_WAIT_FOR = "NOTHING_TO_WAIT_FOR"
    WAITING = "WAITING"
    FOR_EVER = "FOR_EVER"  # no retention ever removes the segments
    STUCK_TIERING_ENABLED = "STUCK_TIERING_ENABLED"  # what cannot be copied is not deleted either


@dataclass(frozen=True, slots=True)
class Waiting:
    """The cost of waiting for one partition."""

    wait: Wait  # where the partition stands
    waiting_segments: int = 0  # that end at an offset without a right snapshot
    first_waiting_offset: int | None = None  # base offset of the first of them, None without one
    # From now until the last of them is removed; 0 if retention may act at once, None unless it is WAITING.
    wait_ms: int | None = None
    ready_at: int | None = None  # ms, likewise
    untiered_bytes: int = 0  # of the closed segments from the first of them on: nothing of these can be tiered today
    # Written until then, not to be tiered either; None if no rate is known or there is no end.
    grows_by_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WritingRate:
    """KIP-952's arithmetic for a log, whose example is 5 MB/s, segments of 1 GB, a day.

    The KIP says that a producer has to be silent for about 15 minutes around the boundary, and does not say that a
    client would have given up sending again by itself long before: after delivery.timeout.ms, two minutes by default.
    """

    bytes_per_second: int | None
    segment_ms: int | None  # to write a segment
    segments_per_expiration: float | None  # written until a producer expires
    # From this rate on clients may still send again by themselves with a segment in between.
    automatic_retry_bytes_per_second: int | None


@dataclass(frozen=True, slots=True)
class BoundaryRow:
    """A boundary of a partition: the exclusive end offset of a closed segment."""

    replica: ReplicaKey
    boundary: RiskedBoundary

    @property
    def severity(self) -> tuple[object, ...]:
        """Return the key that rows are sorted by, the worst first."""
        at = self.boundary
        return (*_harm(at.exposure), 0, *self.replica.order, at.offset)

    @property
    def name(self) -> str:
        """Return the partition's name."""
        return self.replica.name

    @property
    def exposed(self) -> str | None:
        """Return `exposed_ms` in words."""
        return _exposed(self.boundary.exposure)

    @property
    def replay(self) -> str:
        """Return the bytes of the three replays in words."""
        return self.boundary.cost.in_words


@dataclass(frozen=True, slots=True)
class PartitionRisk:
    """The numbers of a partition, with the exposure and the transactions at its worst boundary.

    Attributes:
        alive: producers at the log end that a broker still keeps; null if the log cannot be replayed.
        outlived: of these, those of which the log holds no record any more.
        at: the boundary without a right snapshot at which an empty one would expose most; `exposure`,
            `open_transactions` and `crossing` are those at this offset.
        cost: of a replay to the highest such boundary.
        bounded_mismatches: of KIP-952's bounded replay, producers by reason.
    """

    segments: int
    bytes: int
    alive: int | None
    outlived: int | None
    causes: Mapping[str, int]
    at: int | None
    exposure: Exposure | None
    open_transactions: int | None
    crossing: Crossing | None
    waiting: Waiting
    cost: ReplayCost | None
    bounded_mismatches: Mapping[str, int]
    rate: WritingRate
    has_headers: bool

    @property
    def waits(self) -> str:
        """Return the wait for retention in words."""
        return _WAITS.get(self.waiting.wait) or human_duration(self.waiting.wait_ms or 0)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition and its numbers."""

    replica: ReplicaKey
    risk: PartitionRisk

    @property
    def severity(self) -> tuple[object, ...]:
        """Return the key that rows are sorted by, the worst first."""
        return (*_harm(self.risk.exposure), -self.risk.waiting.untiered_bytes, *self.replica.order)

    @property
    def name(self) -> str:
        """Return the partition's name."""
        return self.replica.name

    @property
    def exposed(self) -> str | None:
        """Return `exposed_ms` in words."""
        return _exposed(self.risk.exposure)

    @property
    def waits(self) -> str:
        """Return the wait for retention in words."""
        return self.risk.waits

    @property
    def untiered(self) -> str:
        """Return `untiered_bytes` in words."""
        return human_bytes(self.risk.waiting.untiered_bytes)

    @property
    def replay(self) -> str | None:
        """Return the bytes of the three replays in words."""
        return None if self.risk.cost is None else self.risk.cost.in_words


_WAITS = {
    Wait.NOTHING_TO_WAIT_FOR: "-",
    Wait.FOR_EVER: "for ever",
    Wait.STUCK_TIERING_ENABLED: "stuck: tiering is enabled",
}


def _exposed(exposure: Exposure | None) -> str | None:
    if exposure is None:
        return None
    if not exposure.lost:
        return "-"
    return "for ever" if exposure.exposed_ms is None else human_duration(exposure.exposed_ms)


def _harm(found: Exposure | None) -> tuple[int, int, int]:
    return (0, 0, 0) if found is None else (-found.doubled, -found.lost, -found.degraded)


# Columns of a partition that are added up, and those of which the greatest counts.
