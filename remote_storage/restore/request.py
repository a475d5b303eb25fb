"""The request of a restore, the action on each partition, and the remote segments that it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tiersnap.snapshot.errors import UsageError

if TYPE_CHECKING:
    from tiersnap.snapshot.formats.checkpoints import TopicPartition
    from tiersnap.snapshot.replay.expiry import BrokerExpiry


class RestoreAction(StrEnum):
    """The action on a partition."""

    RESTORE = "RESTORE"
    RESUME = "RESUME"  # an earlier restore was cut short
    COMPARE = "COMPARE"  # a folder with such segments exists


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Partitions of one topic, their source, and their topic id and state in the target."""

    topic: str | None  # None if the partitions name it
    partitions: tuple[TopicPartition, ...]  # empty for all partitions in remote storage
    topic_id: str | None  # in remote storage; None if the topic has segments under one id only
    layout: str | None  # of layouts.open_layout.LAYOUTS; None if the topic has segments in one layout only
    cluster_id: str | None  # of the cluster that wrote the segments; None if a run recorded it
    as_topic_id: str | None  # in the target's cluster; None for the same id as in remote storage
    producer_state: str | None  # "keep" or "empty"; None if there is nothing to choose
    log_start: int | None  # first offset wanted, inclusive; None for the tier's
    until: int | None  # end of the log, exclusive; None for the tier's
    without: tuple[str, ...]  # ids of segments to leave out
    unpublished: bool  # also take segments that the cluster, or without a cluster a broker, did not publish
    broker_expiry: BrokerExpiry

    def __post_init__(self) -> None:
        if not self.topic and not self.partitions:
            raise UsageError("no topic was named", hint="--topic orders, or --partition orders-0")
        if any(topic != self.name for topic, _ in self.partitions):
            raise UsageError("--topic and --partition name several topics", hint="restore one topic at a time")

    @property
    def name(self) -> str:
        """Return the topic's name."""
        return self.topic or self.partitions[0][0]

    @property
    def numbers(self) -> frozenset[int]:
        """Return the numbers of the partitions; empty for all partitions in remote storage."""
        return frozenset(number for _, number in self.partitions)

    @property
    def is_local(self) -> bool | None:
        """Return whether the segments are files of LocalTieredStorage; None if the layout was not named."""
        return None if self.layout is None else self.layout == "local-tiered-storage"


@dataclass(frozen=True, slots=True)
class LeftOutCopy:
    """A remote segment that is not used."""

    segment_id: str
    base_offset: int
    next_base_offset: int | None  # None of an incomplete segment
    reason: str
