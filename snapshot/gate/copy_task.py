"""Decide whether a broker's copy task works, and when it copies a segment. Neither cluster nor store is read here.

Brokers do not know tiersnap's claims. If tiersnap uploaded a segment, a working copy task would upload the same segment
again. So READY segments are left to a working copy task. The cluster shows whether the task works. Without a cluster,
the task counts as working if a broker uploaded a segment recently, by the clock of the store.

Since Kafka 4.4 a copy task waits for `remote.copy.lag.ms` and `remote.copy.lag.bytes` (KIP-1241). `CopyLag.due` follows
org.apache.kafka.server.log.remote.storage.RemoteLogManager.RLMCopyTask.isEligibleForUpload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tiersnap.snapshot.units import human_bytes, human_duration, utc

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.remote_records import Records

LEFT_FOR_MS = 3_600_000
"""Default time (ms) after a broker's upload during which the partition's segments are left to that broker."""
_MAX_LONG = 2**63 - 1


class CopyTask(StrEnum):
    """The state of a partition's copy task."""

    WORKS = "WORKS"
    STUCK = "STUCK"  # it starts to copy the same segment again and again
    OFF = "OFF"  # copying is disabled, or the topic is not tiered


@dataclass(frozen=True, slots=True)
class Due:
    """The condition under which a segment is copied: a time, or a number of bytes written after the segment.

    One of the two suffices.

    If both are None, the segment is never copied.
    """

    at: int | None  # ms, the time from which the segment may be copied; None if time is no condition
    more_bytes: int | None = None  # bytes that must still be written after the segment; None if size is no condition

    def is_now(self, now: int) -> bool:
        """Return whether the segment may be copied at `now` (ms)."""
        return (self.at is not None and self.at <= now) or (self.more_bytes is not None and self.more_bytes <= 0)

    def text(self, now: int) -> str:
        """Return the condition at `now` (ms) as text for people."""
        if self.is_now(now):
            return "now"
        conditions: list[str] = []
        if self.at is not None:
            conditions.append(f"at {utc(self.at)}")
        if self.more_bytes is not None:
            conditions.append(f"after {human_bytes(self.more_bytes)} more")
        return " or ".join(conditions) or "never"


@dataclass(frozen=True, slots=True)
class CopyLag:
    """The configs `remote.copy.lag.ms` and `remote.copy.lag.bytes` of a topic; 0 copies immediately."""

    # Time since the newest record of a segment; None if time is no condition (-1 without local retention).
    milliseconds: int | None = 0
    size: int | None = None  # bytes of the log after the segment; None if size is no condition

    def due(self, largest_timestamp: int, newer_bytes: int, now: int) -> Due:
        """Return the condition under which a segment is copied.

        Args:
            largest_timestamp: ms; see SegmentEnd.largest_timestamp.
            newer_bytes: bytes of the log after the segment.
            now: ms.
        """
        # A segment with a timestamp in the future is copied immediately.
        if 0 in (self.milliseconds, self.size) or (self.milliseconds is not None and largest_timestamp > now):
            return Due(now)
        at = None if self.milliseconds is None else min(largest_timestamp + self.milliseconds, _MAX_LONG)
        missing_bytes = None if self.size is None else max(0, self.size - newer_bytes)
        return Due(at, missing_bytes)


@dataclass(frozen=True, slots=True)
class CopyTasks:
    """The copy tasks of a cluster."""

    # Lag by topic id, for each topic of the cluster; None if copying is disabled for the topic.
    topics: Mapping[str, CopyLag | None] = field(default_factory=dict)
    stuck: frozenset[tuple[str, int]] = frozenset()  # (topic id, partition) of tasks that are stuck, as records prove

    def of(self, topic_id: str, partition: int) -> CopyTask | None:
        """Return the state of the partition's copy task; None if the cluster does not have the topic."""
        if topic_id not in self.topics:
            return None
        if self.topics[topic_id] is None:
            return CopyTask.OFF
        if (topic_id, partition) in self.stuck:
            return CopyTask.STUCK
        return CopyTask.WORKS


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """The copy tasks of a cluster, and its `__remote_log_metadata` records."""

    tasks: CopyTasks | None = None  # None without a cluster
    records: Records | None = None  # records of the cluster's partitions; None if they were not read


@dataclass(frozen=True, slots=True)
class BrokerAtWork:
    """A broker that copies a partition's segments.

    Attributes:
        how: text that says why tiersnap assumes that the broker copies.
        lag: the topic's copy lag; None if unknown.
    """

    how: str
    lag: CopyLag | None = None

    def reason(self, largest_timestamp: int, newer_bytes: int, now: int) -> str:
        """Return why a segment is left to the broker; `CopyLag.due` explains the arguments."""
        if self.lag is None:
            return self.how
        return f"{self.how}, and will upload the segment {self.lag.due(largest_timestamp, newer_bytes, now).text(now)}"


@dataclass(frozen=True, slots=True)
class BesideBrokers:
    """The evidence that decides whether a broker copies a partition."""

    store_now: int = 0  # ms, by the clock of the store
    left_for: int | None = None  # ms after a broker's upload, see LEFT_FOR_MS; None leaves no segment to brokers
    tasks: CopyTasks | None = None  # the copy tasks of the cluster; None without a cluster

    def broker_at(self, topic_id: str | None, partition: int, wrote_at: int | None) -> BrokerAtWork | None:
        """Return the broker that copies the partition; None if none is known.

        Args:
            wrote_at: time at which a broker last wrote an object of the partition, ms by the store's clock. None if no
                such object is known.
        """
        if self.left_for is None:
            return None
        if self.tasks is not None and topic_id is not None:
            task = self.tasks.of(topic_id, partition)
            if task is CopyTask.WORKS:
                return BrokerAtWork("the copy task of the partition's leader works", self.tasks.topics[topic_id])
            if task is not None:
                return None
        if wrote_at is None or self.store_now - wrote_at > self.left_for:
            return None
        ago = human_duration(max(0, self.store_now - wrote_at))
        return BrokerAtWork(f"a broker uploaded a segment of this partition {ago} ago")


NO_BROKERS = BesideBrokers()
