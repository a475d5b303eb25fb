"""Rows of `simulate --risk`: one per partition or one per boundary, from a log directory or from a warehouse.

Times named `_ms` are durations. `exposed_ms` is null if the exposure never ends by itself, `wait_ms` if waiting does
not help. Counts without a unit are producers or segments.
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
    """The reason why a snapshot offset has no right snapshot, judged by the snapshot files of the partition."""

    PRE_2_8 = "PRE_2_8"  # no file here or below: brokers before 2.8 keep the snapshots of the last two segments only
    GAP_AFTER_ALIGNED = "GAP_AFTER_ALIGNED"  # no file here, but one below: lost or deleted later
    CORRUPT = "CORRUPT"  # no broker can read the file
    EMPTY_WRONG = "EMPTY_WRONG"  # the file has no producer, but the log has one that a broker would keep
    EMPTY_TRUE = "EMPTY_TRUE"  # the file has no producer, and neither has the log
    CONTENT_DIFF = "CONTENT_DIFF"  # the file is readable and contradicts the log
    UNVERIFIED = "UNVERIFIED"  # the file was not compared, or not with the beginning of the log


@dataclass(frozen=True, slots=True)
class Exposure:
    """Counts of the producers that an empty snapshot at an offset would expose now."""

    producers: int  # alive now, with a record below the offset
    lost: int  # of these, without a record above it: the follower does not know them
    degraded: int  # of these, with a record above it, but the follower knows less than the leader
    # Lost or degraded producers whose last batch the follower would append a second time if a client sent it again:
    # the follower does not know the producer, or only a marker of it.
    doubled: int
    doubled_automatically: int  # doubled producers that wrote so recently that a client may retry by itself
    doubled_records: int  # records in the batches that the leader caches of the doubled, at most five batches each
    doubled_bytes: int | None  # bytes of these batches, None if a header is missing
    fencing_lost: int  # lost producers with an epoch above 0: a fenced instance could write
    coordinator_epochs_lost: int  # producers whose last marker is below the offset: a fenced coordinator could write
    open_transactions_lost: int  # lost or degraded producers whose open transaction began below the offset
    # Time until brokers have dropped the last lost producer: from then on the empty snapshot is right. 0 if no producer
    # is lost, None if a lost one has an open transaction or nothing expires.
    exposed_ms: int | None
    producer_ms: int  # sum over the lost producers of the time until a broker drops them


@dataclass(slots=True)
class Crossing:
    """The transactions that are open at an offset; all counts are exact."""

    aborted: int = 0  # transactions whose abort marker is above the offset
    # Of these, below the offset: read_committed consumers would get them.
    aborted_records: int = 0
    aborted_bytes: int = 0
    beginning_late: int = 0  # transactions with writes above the offset: they would seem to begin there
    undecided: int = 0  # transactions without a marker in the log


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """Bytes to read for the state at an offset, and ms at the read rate."""

    full_bytes: int  # the whole log below the offset
    full_ms: int
    bounded_bytes: int  # from `window_offset` on
    bounded_ms: int
    incremental_bytes: int  # from `nearest_offset` on
    incremental_ms: int
    # Base offset of the first segment whose largest timestamp is within the expiration, or of the segment in which the
    # oldest open transaction began, if that is lower; without both, the offset itself.
    window_offset: int
    nearest_offset: int  # offset of the nearest snapshot to start from; without one, the log's first offset

    @property
    def in_words(self) -> str:
        """Return the bytes of the three replays."""
        return ", ".join(map(human_bytes, (self.full_bytes, self.bounded_bytes, self.incremental_bytes)))


@dataclass(frozen=True, slots=True)
class RiskedBoundary:
    """One segment's end."""

    offset: int
    snapshot: SnapshotVerdict  # of the snapshot at the offset
    cause: SnapshotCause | None  # why that snapshot is wrong or empty; None if it is neither
    exposure: Exposure | None  # of an empty snapshot at the offset; None if the log was not read from there on
    open_transactions: int | None  # number at the offset, None if unknown
    crossing: Crossing | None  # the transactions open at the offset; None without headers
    cost: ReplayCost

    @property
    def is_blocked(self) -> bool:
        """Return whether the segment that ends here has no right snapshot."""
        return not self.snapshot.is_trusted

    @property
    def severity(self) -> tuple[int, int, int]:
        """Sort key, the worst greatest: doubled, lost and degraded producers."""
        found = self.exposure
        return (0, 0, 0) if found is None else (found.doubled, found.lost, found.degraded)


class Wait(StrEnum):
    """The answer to whether waiting for retention helps a partition."""

    NOTHING_TO_WAIT_FOR = "NOTHING_TO_WAIT_FOR"
    WAITING = "WAITING"
    FOR_EVER = "FOR_EVER"  # retention never removes the segments
    STUCK_TIERING_ENABLED = "STUCK_TIERING_ENABLED"  # brokers delete no segment that they could not copy


@dataclass(frozen=True, slots=True)
class Waiting:
    """The cost of waiting for one partition."""

    wait: Wait
    waiting_segments: int = 0  # segments that end without a right snapshot
    first_waiting_offset: int | None = None  # base offset of the first of them, None without one
    # From now until retention has removed the last of them; 0 if it may do so now, None unless `wait` is WAITING.
    wait_ms: int | None = None
    ready_at: int | None = None  # epoch ms when the wait ends
    untiered_bytes: int = 0  # closed segments from the first waiting one on: they cannot be tiered today
    grows_by_bytes: int | None = None  # written during the wait, untiered too; None if the rate or the end is unknown


@dataclass(frozen=True, slots=True)
class WritingRate:
    """KIP-952's arithmetic for a log. Its example is 5 MB/s, segments of 1 GB and a day.

    The KIP says that a producer has to be silent for about 15 minutes around the boundary. It does not mention that
    clients stop retrying by themselves long before: after delivery.timeout.ms, two minutes by default.
    """

    bytes_per_second: int | None
    segment_ms: int | None  # time to write a segment
    segments_per_expiration: float | None  # segments written before a producer expires
    # At this rate or above, a segment fills before clients stop retrying by themselves.
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
        outlived: of these, producers without a record in the log.
        at: the boundary without a right snapshot at which an empty one would expose most producers; `exposure`,
            `open_transactions` and `crossing` are about this offset.
        cost: cost of a replay to the highest boundary without a right snapshot.
        bounded_mismatches: producers that KIP-952's bounded replay gets wrong, by reason.
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
    def is_endless(self) -> bool:
        """Return whether the exposure never ends by itself."""
        return self.exposure is not None and self.exposure.lost > 0 and self.exposure.exposed_ms is None

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
