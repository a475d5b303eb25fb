"""Rows of `simulate --risk`, one per partition or per boundary, from a log directory or from a warehouse.

Fields named `_ms` are durations. `exposed_ms` is null if the exposure does not end by itself. `wait_ms` is null if a
wait does not help. Counts without a unit are numbers of producers or segments.
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
    """A replica of a partition. `log_dir` is the log directory from the command line."""

    log_dir: str
    topic: str
    partition: Int32

    @property
    def name(self) -> str:
        """Return `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @property
    def order(self) -> tuple[str, int, str]:
        """Return a sort key that places the replicas of a partition together."""
        return self.topic, self.partition, self.log_dir


class SnapshotCause(StrEnum):
    """The reason why the snapshot at an offset is missing, wrong, empty or unverified."""

    PRE_2_8 = "PRE_2_8"  # no file here or below: brokers before 2.8 keep snapshots of only the last two segments
    GAP_AFTER_ALIGNED = "GAP_AFTER_ALIGNED"  # no file here, but a file below: the file was lost or deleted
    CORRUPT = "CORRUPT"  # no broker can read the file
    EMPTY_WRONG = "EMPTY_WRONG"  # the file has no producer, but the log has one that a broker would keep
    EMPTY_TRUE = "EMPTY_TRUE"  # neither the file nor the log has a producer
    CONTENT_DIFF = "CONTENT_DIFF"  # the file can be read but contradicts the log
    UNVERIFIED = "UNVERIFIED"  # the file was not compared, or not with the beginning of the log


@dataclass(frozen=True, slots=True)
class Exposure:
    """The number of producers that an empty snapshot at an offset would expose now."""

    producers: int  # active producers with a record below the offset
    lost: int  # number of `producers` without a record above the offset: the follower lacks them
    # Number of `producers` with a record above the offset: the follower has fewer of their batches than the leader.
    degraded: int
    # Lost or degraded producers whose last batch the follower would append a second time if a client sent it again. The
    # follower does not have the producer, or has only a marker of it.
    doubled: int
    doubled_automatically: int  # of `doubled`: producers that wrote so recently that a client may retry automatically
    doubled_records: int  # records in cached batches of the `doubled` producers, at most five batches each
    doubled_bytes: int | None  # bytes of these batches; None if a header is missing
    fencing_lost: int  # lost producers with an epoch above 0: a fenced instance could write
    coordinator_epochs_lost: int  # producers whose last marker is below the offset: a fenced coordinator could write
    open_transactions_lost: int  # lost or degraded producers whose open transaction began below the offset
    # Time until brokers have removed the last lost producer, after which the empty snapshot is right. 0 if no producer
    # is lost; None if a lost producer has an open transaction, or if producers never expire.
    exposed_ms: int | None
    producer_ms: int  # sum of the times until brokers remove the lost producers


@dataclass(slots=True)
class Crossing:
    """The transactions that are open at an offset. All counts are exact."""

    aborted: int = 0  # transactions whose abort marker is above the offset
    # Records and bytes of these transactions below the offset: read_committed consumers would read them.
    aborted_records: int = 0
    aborted_bytes: int = 0
    beginning_late: int = 0  # transactions with writes above the offset, where they would seem to begin
    undecided: int = 0  # transactions without a marker in the log


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """The bytes that a replay reads for the state at an offset, and its duration in ms."""

    full_bytes: int  # the whole log below the offset
    full_ms: int
    bounded_bytes: int  # the log from `window_offset` on
    bounded_ms: int
    incremental_bytes: int  # the log from `nearest_offset` on
    incremental_ms: int
    # Base offset of the first segment whose largest timestamp is within the expiration. If the oldest open transaction
    # began in a lower segment, the base offset of that segment. If there is neither, the offset itself.
    window_offset: int
    nearest_offset: int  # offset of the nearest snapshot to start from, or the log's first offset if there is none

    @property
    def in_words(self) -> str:
        """Return the bytes of the full, the bounded and the incremental replay as text."""
        return ", ".join(map(human_bytes, (self.full_bytes, self.bounded_bytes, self.incremental_bytes)))


@dataclass(frozen=True, slots=True)
class RiskedBoundary:
    """The end of a closed segment, with its risk."""

    offset: int
    snapshot: SnapshotVerdict  # verdict on the snapshot at the offset
    cause: SnapshotCause | None  # why the snapshot is wrong or empty; None if it is neither
    exposure: Exposure | None  # exposure by an empty snapshot; None if the log was not read from the offset on
    open_transactions: int | None  # number of transactions that are open at the offset; None if unknown
    crossing: Crossing | None  # the same transactions in detail; None without batch headers
    cost: ReplayCost

    @property
    def is_blocked(self) -> bool:
        """Return whether the segment that ends at this offset has no trusted snapshot."""
        return not self.snapshot.is_trusted

    @property
    def severity(self) -> tuple[int, int, int]:
        """Return a sort key: the numbers of doubled, lost and degraded producers."""
        found = self.exposure
        if found is None:
            return 0, 0, 0
        return found.doubled, found.lost, found.degraded


class Wait(StrEnum):
    """The effect of a wait for retention on a partition."""

    NOTHING_TO_WAIT_FOR = "NOTHING_TO_WAIT_FOR"
    WAITING = "WAITING"
    FOR_EVER = "FOR_EVER"  # retention never removes the segments
    STUCK_TIERING_ENABLED = "STUCK_TIERING_ENABLED"  # brokers do not delete a segment that they could not upload


@dataclass(frozen=True, slots=True)
class Waiting:
    """The cost of a wait for retention, for one partition."""

    wait: Wait
    waiting_segments: int = 0  # segments whose end has no right snapshot
    first_waiting_offset: int | None = None  # base offset of the first of these segments; None if there is none
    # Time until retention has deleted the last of these segments; 0 if it may delete it now. None unless `wait` is
    # WAITING.
    wait_ms: int | None = None
    ready_at: int | None = None  # end of the wait, epoch ms
    untiered_bytes: int = 0  # bytes of the closed segments that cannot be tiered today
    grows_by_bytes: int | None = None  # further bytes that are written during the wait; None if rate or end are unknown


@dataclass(frozen=True, slots=True)
class WritingRate:
    """The write rate of a log, with the numbers that KIP-952 derives from a write rate.

    The KIP's example is 5 MB/s, segments of 1 GB and an expiration of a day. According to the KIP, an empty snapshot
    does harm only if a producer is idle for about 15 minutes around the boundary. The KIP does not mention that clients
    stop automatic retries earlier: after delivery.timeout.ms, by default two minutes.
    """

    bytes_per_second: int | None
    segment_ms: int | None  # time to write a segment
    segments_per_expiration: float | None  # segments written before a producer expires
    # At this rate or above, a segment fills up before clients stop automatic retries.
    automatic_retry_bytes_per_second: int | None


@dataclass(frozen=True, slots=True)
class BoundaryRow:
    """A row of `simulate --risk --boundaries`: the exclusive end offset of a closed segment, with its risk."""

    replica: ReplicaKey
    boundary: RiskedBoundary

    @property
    def severity(self) -> tuple[object, ...]:
        """Return a sort key that places the worst rows first."""
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
        """Return the bytes of the full, the bounded and the incremental replay as text."""
        return self.boundary.cost.in_words


@dataclass(frozen=True, slots=True)
class PartitionRisk:
    """The risk of a partition, with the exposure and the transactions at its worst boundary.

    Attributes:
        alive: number of producers at the log end that a broker still keeps; null if the log cannot be replayed.
        outlived: number of the `alive` producers that have no record in the log.
        at: the worst boundary: it has no right snapshot, and an empty snapshot there would expose the most producers.
            `exposure`, `open_transactions` and `crossing` describe this offset.
        cost: cost of a replay up to the highest boundary without a right snapshot.
        bounded_mismatches: number of producers that KIP-952's bounded replay gets wrong, by reason.
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
        """Return whether the exposure does not end by itself."""
        return self.exposure is not None and self.exposure.lost > 0 and self.exposure.exposed_ms is None

    @property
    def waits(self) -> str:
        """Return the wait for retention in words."""
        return _WAITS.get(self.waiting.wait) or human_duration(self.waiting.wait_ms or 0)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A row of `simulate --risk`: a partition with its risk."""

    replica: ReplicaKey
    risk: PartitionRisk

    @property
    def severity(self) -> tuple[object, ...]:
        """Return a sort key that places the worst rows first."""
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
        """Return the bytes of the full, the bounded and the incremental replay as text."""
        if self.risk.cost is None:
            return None
        return self.risk.cost.in_words


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
    if exposure.exposed_ms is None:
        return "for ever"
    return human_duration(exposure.exposed_ms)


def _harm(found: Exposure | None) -> tuple[int, int, int]:
    if found is None:
        return 0, 0, 0
    return -found.doubled, -found.lost, -found.degraded
