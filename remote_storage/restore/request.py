"""The request of a restore, the action on each partition, and the remote segments that the restore leaves out."""

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
    RESUME = "RESUME"  # an unfinished folder of an interrupted restore exists
    COMPARE = "COMPARE"  # the folder exists, with segments of the same offsets and sizes


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """The partitions of one topic to restore, with their source, their target topic id and their producer state."""

    topic: str | None  # None if `partitions` names the topic
    partitions: tuple[TopicPartition, ...]  # empty for all partitions in remote storage
    topic_id: str | None  # topic id in remote storage; None if there is only one
    layout: str | None  # a name from layouts.open_layout.LAYOUTS; None if the topic has only one layout
    cluster_id: str | None  # of the cluster that wrote the segments; None if a run recorded the id
    as_topic_id: str | None  # topic id in the target cluster; None for the same id as in remote storage
    producer_state: str | None  # "keep" or "empty"; None if the user gave no --producer-state
    log_start: int | None  # first offset, inclusive; None for the start of the remote log
    until: int | None  # end offset, exclusive; None for the end of the remote log
    without: tuple[str, ...]  # ids of segments to leave out
    unpublished: bool  # whether to use segments that are not known to be published
    broker_expiry: BrokerExpiry

    def __post_init__(self) -> None:
        if not self.topic and not self.partitions:
            raise UsageError("no topic was named", hint="give --topic orders, or --partition orders-0")
        if any(topic != self.name for topic, _ in self.partitions):
            raise UsageError("--topic and --partition name more than one topic", hint="restore one topic at a time")

    @property
    def name(self) -> str:
        """Return the topic's name."""
        return self.topic or self.partitions[0][0]

    @property
    def numbers(self) -> frozenset[int]:
        """Return the numbers of the requested partitions; empty if the user requested all partitions."""
        return frozenset(number for _, number in self.partitions)

    @property
    def is_local(self) -> bool | None:
        """Return whether the requested layout is LocalTieredStorage's. None if no layout was requested."""
        if self.layout is None:
            return None
        return self.layout == "local-tiered-storage"


@dataclass(frozen=True, slots=True)
class LeftOutCopy:
    """A remote segment that the restore does not use."""

    segment_id: str
    base_offset: int
    next_base_offset: int | None  # None for an incomplete segment
    reason: str
