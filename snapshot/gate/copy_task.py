"""Judge whether a broker's copy task works, and when it copies a segment. Pure: no cluster, no store.

Brokers know no claims: a working copy task copies the segments that tiersnap uploads a second time. So READY segments
are left to it. The cluster shows whether it works. Without a cluster, a recent upload by a broker shows it, by the
clock of the store.

Since 4.4 a copy task waits for `remote.copy.lag.ms` and `.bytes` (KIP-1241). Follows
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
"""How long after a broker's upload its segments are left to it, unless another time is given."""
_MAX_LONG = 2**63 - 1


class CopyTask(StrEnum):
    """The state of a partition's copy task."""

    WORKS = "WORKS"
    STUCK = "STUCK"  # it begins the same segment again and again
    OFF = "OFF"  # copying is switched off, or the topic is not tiered


@dataclass(frozen=True, slots=True)
class Due:
    """The condition for the copy of a segment: a time, or a number of newer bytes; the first that is met counts.

    If both are None, the segment is never copied.
    """

    at: int | None  # ms; it may be copied from this time on. None if time does not count.
    more_bytes: int | None = None  # bytes still to be written after the segment. None if size does not count.

    def is_now(self, now: int) -> bool:
        """Return whether it may be copied at `now` (ms)."""
        return (self.at is not None and self.at <= now) or (self.more_bytes is not None and self.more_bytes <= 0)

    def text(self, now: int) -> str:
        """Return it for people, as of `now` (ms)."""
        if self.is_now(now):
            return "now"
        at = [] if self.at is None else [f"at {utc(self.at)}"]
        after = [] if self.more_bytes is None else [f"after {human_bytes(self.more_bytes)} more"]
        return " or ".join([*at, *after]) or "never"


@dataclass(frozen=True, slots=True)
class CopyLag:
    """The effective values of a topic's `remote.copy.lag.ms` and `.bytes`; 0 copies immediately."""

    # Since the newest record of a segment. None if time does not count: -1, and no local retention.
    milliseconds: int | None = 0
    size: int | None = None  # bytes of the log after the segment. None if size does not count.

    def due(self, largest_timestamp: int, newer_bytes: int, now: int) -> Due:
        """Return when a segment is copied.

        Args:
            largest_timestamp: ms, the segment's as the broker has it.
            newer_bytes: bytes of the log after the segment.
            now: ms.
        """
        # A record from the future does not hold up its segment.
        if 0 in (self.milliseconds, self.size) or (self.milliseconds is not None and largest_timestamp > now):
            return Due(now)
        at = None if self.milliseconds is None else min(largest_timestamp + self.milliseconds, _MAX_LONG)
        missing_bytes = None if self.size is None else max(0, self.size - newer_bytes)
        return Due(at, missing_bytes)


@dataclass(frozen=True, slots=True)
class CopyTasks:
    """The copy tasks of a cluster."""

    # Lag by the id of each topic that the cluster shows; None if copying is disabled.
    topics: Mapping[str, CopyLag | None] = field(default_factory=dict)
    stuck: frozenset[tuple[str, int]] = frozenset()  # (topic id, partition) of tasks that records prove to be stuck

    def of(self, topic_id: str, partition: int) -> CopyTask | None:
        """Return the state of the partition's copy task; None of a topic that the cluster does not show."""
        if topic_id not in self.topics:
            return None
        if self.topics[topic_id] is None:
            return CopyTask.OFF
        return CopyTask.STUCK if (topic_id, partition) in self.stuck else CopyTask.WORKS


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """The answer of a cluster about partitions."""

    tasks: CopyTasks | None = None  # None without a cluster
    records: Records | None = None  # of each partition that the cluster has; None if they were not read


@dataclass(frozen=True, slots=True)
class BrokerAtWork:
    """A broker that copies a partition's segments; `how` is the evidence, `lag` the topic's copy lag if known."""

    how: str
    lag: CopyLag | None = None

    def reason(self, largest_timestamp: int, newer_bytes: int, now: int) -> str:
        """Return why a segment is left to it; see CopyLag.due."""
        if self.lag is None:
            return self.how
        return f"{self.how}, and copies it {self.lag.due(largest_timestamp, newer_bytes, now).text(now)}"


@dataclass(frozen=True, slots=True)
class BesideBrokers:
    """The signs by which a broker counts as copying."""

    store_now: int = 0  # ms, by the clock of the store
    left_for: int | None = None  # ms since a broker's upload; None leaves nothing to brokers
    tasks: CopyTasks | None = None  # the copy tasks of the cluster; None without a cluster

    def broker_at(self, topic_id: str | None, partition: int, wrote_at: int | None) -> BrokerAtWork | None:
        """Return the broker that copies the partition, None if none is known.

        Args:
            wrote_at: ms by the store's clock at which a broker last wrote an object of a segment; None if none did.
        """
        if self.left_for is None:
            return None
        if self.tasks is not None and topic_id is not None:
            task = self.tasks.of(topic_id, partition)
            if task is CopyTask.WORKS:
                return BrokerAtWork("its broker's copy task works", self.tasks.topics[topic_id])
            if task is not None:
                return None
        if wrote_at is None or self.store_now - wrote_at > self.left_for:
            return None
        ago = human_duration(max(0, self.store_now - wrote_at))
        return BrokerAtWork(f"a broker uploaded a segment of this partition {ago} ago")


NO_BROKERS = BesideBrokers()
