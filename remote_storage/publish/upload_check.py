"""Check before an upload that the cluster has the partition, and that the leader's log equals the local log.

Otherwise the upload would leave segments in remote storage that can never be published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.log_ends import check_has_leader
from tiersnap.remote_storage.cluster.topic_checks import ClusterTopics
from tiersnap.remote_storage.errors import ClusterRefusedError
from tiersnap.remote_storage.metadata.segment_metadata import name_of
from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
from tiersnap.snapshot.errors import CorruptDataError, GateError, TiersnapError, TransientError
from tiersnap.snapshot.replay.partition_listing import PartitionListing

_OF_ONE_PARTITION = (GateError, TransientError, CorruptDataError, ClusterRefusedError)


@dataclass(frozen=True)
class UploadCheck:
    """Checks the partitions of one command."""

    topics: ClusterTopics
    publisher: PublishUploads | None  # publishes the segments after their upload; None to publish nothing

    @classmethod
    def ask(cls, cluster: Cluster, topics: Iterable[str], publisher: PublishUploads | None) -> UploadCheck:
        """Ask a cluster for the topics of all partitions that will be checked.

        Raises:
            BrokerUnavailableError, ClusterRefusedError: the cluster does not answer.
        """
        return cls(ClusterTopics.ask(cluster, topics), publisher)

    def refusal_of(self, listing: PartitionListing) -> TiersnapError | None:
        """Return the error that forbids the upload of a partition's segments, or None.

        The leader is asked only if segments may be uploaded and will be published.
        """
        if listing.partition.topic_id is None:
            return None
        try:
            self._check(listing)
        except _OF_ONE_PARTITION as refusal:
            return refusal
        return None

    def _check(self, listing: PartitionListing) -> None:
        partition = name_of(listing.partition)
        self.topics.check(partition)
        end_offset = listing.end_to_upload
        if self.publisher is not None and end_offset:
            check_has_leader(partition, self.topics.leader_of(partition))
            self.publisher.check_leader(listing, end_offset)
