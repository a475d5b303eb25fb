"""The records that a cluster has of a partition, and the reasons to refuse the removal of its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition

_FINISHED, _DELETED = SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_FINISHED


Ask = Callable[[Iterable[TopicIdPartition]], Mapping[TopicIdPartition, "KnownPartition"]]
"""Returns the cluster's current records of some partitions. Partitions without a topic id are left out."""


class KnownToCluster(Protocol):
    """A cluster whose records of remote segments can be read."""

    @property
    def cluster_id(self) -> str:
        """Return the id of the cluster."""

    def reading(self, partitions: Iterable[TopicIdPartition]) -> AbstractContextManager[Ask]:
        """Open the records of these partitions.

        The context manager yields a function that returns the current records. The function may be called repeatedly.
        """


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """A cluster's records of a partition, and facts about its topic."""

    partition: TopicIdPartition
    cluster_id: str
    # Newest state of each remote segment, by segment id.
    records: Mapping[str, RemoteLogSegmentMetadata] = field(default_factory=dict)
    doubtful: frozenset[str] = frozenset()  # segment ids whose earlier records are missing
    ended_attempts: frozenset[str] = frozenset()  # segment ids of brokers' failed attempts, see attempts_of_brokers
    metadata_start: int = 0  # log start offset of the metadata partition
    # Log start offset, including remote segments; None if the cluster has no topic with this id.
    log_start: int | None = None
    has_leader: bool = True  # without a leader the log start offset is unknown
    # Whether the cluster certainly has no topic with this id. Checked only if the records contain undeleted segments.
    is_absent: bool = False

    @property
    def has_undeleted(self) -> bool:
        """Return whether a record describes a segment that is not deleted."""
        return any(each.state is not _DELETED for each in self.records.values())

    @property
    def is_live(self) -> bool:
        """Return whether the cluster has the topic with this id."""
        return self.log_start is not None

    def is_gone(self, segment_id: str) -> bool:
        """Return whether the cluster deleted the segment or never recorded it.

        All segments of a deleted topic count as deleted. If the topic is not deleted, return False for a segment in
        `doubtful`.
        """
        record = self.records.get(segment_id)
        return self.is_absent or (segment_id not in self.doubtful and (record is None or record.state is _DELETED))

    def published_end(self, leader_epoch: int) -> int:
        """Return the exclusive end of the offsets that are published under this leader epoch or a later one.

        Finished segments of older leader epochs are ignored, because the log may have been truncated since.
        """
        end = max(self.log_start or 0, 0)
        for segment_id in self.records:
            end = max(end, self.finished_end(segment_id, leader_epoch))
        return end

    def finished_end(self, segment_id: str, leader_epoch: int) -> int:
        """Return the exclusive end of a segment if it is finished under this leader epoch or a later one, else 0."""
        record = self.records.get(segment_id)
        if record is None or record.state is not _FINISHED or record.segment_leader_epochs[-1][0] < leader_epoch:
            return 0
        return record.end_offset + 1

    def refusal(self, cluster_id: str | None) -> str:
        """Return the reason why no object of the partition may be removed, or "".

        Args:
            cluster_id: the cluster id in the store's cluster.json; None if there is none.
        """
        if cluster_id is None:
            return "no cluster.json names the cluster that wrote the partition"
        if cluster_id != self.cluster_id:
            return f"the partition comes from the cluster {cluster_id}, but this cluster is {self.cluster_id}"
        if self.metadata_start > 0:
            return f"{METADATA_TOPIC} begins at offset {self.metadata_start}, not at 0: earlier records are lost"
        if not self.records:
            known = "the cluster has no records of the partition's remote segments"
            if self.is_live:
                return f"{known}; to publish them: tiersnap publish"
            # The segments may be the only ones of a cluster that was created again under its old id.
            return (
                f"{known}, and no topic with this topic id. If the topic was deleted before the segments were "
                "published, remove the segments by hand"
            )
        if not self.is_live and not self.is_absent and self.has_undeleted:
            return (
                "the cluster shows no such topic, but has not deleted the topic's remote segments: this user may lack "
                "DESCRIBE"
            )
        if not self.has_leader:
            return "the partition has no leader now"
        return ""
