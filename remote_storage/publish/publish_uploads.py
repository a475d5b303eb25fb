"""Publish segments at the end of `tier` and `run`, after their upload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copied_topics import configs_of
from tiersnap.remote_storage.cluster.leader_epochs import dirs_for_epochs
from tiersnap.remote_storage.cluster.log_ends import check_log_end
from tiersnap.remote_storage.cluster.topic_checks import check_settings, is_marked
from tiersnap.remote_storage.errors import UnprovenLogError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.saved_configs import SavedConfigsStore
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition, name_of
from tiersnap.remote_storage.publish.leader_log import LeaderLog
from tiersnap.remote_storage.publish.location_evidence import ProvePlace
from tiersnap.remote_storage.publish.paused_topics import NOT_PAUSED, PausedTopics
from tiersnap.remote_storage.publish.publish import Publish, Published
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
from tiersnap.remote_storage.remote_log.finished import finished_of
from tiersnap.remote_storage.verify.local_log import LocalLog, LocalLogs, log_of_replica, logs_of_replicas
from tiersnap.snapshot.errors import GateError, TiersnapError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.partition_listing import PartitionListing


@dataclass(frozen=True)
class PublishUploads:
    """Publishes the uploaded segments of log directories to their cluster."""

    place: ProvePlace  # proves that brokers read `location`; has the cluster and `apply`
    location: RemoteLocation  # remote storage, as brokers use it
    log_dirs: Sequence[str]  # log directories of leaders, compared with the segments
    selection: Selection  # selects partitions in `log_dirs`
    expiry: BrokerExpiry  # a snapshot may omit producers that expired by these rules

    def refuse_contradiction(self) -> None:
        """Raise an error if brokers read another location. Call this before an upload.

        Raises:
            WrongPlaceError: the evidence contradicts the location.
            TransientError: brokers or the store do not answer.
        """
        self.place.verdict(self.location).refuse_contradiction()

    def check_leader(self, listing: PartitionListing, end_offset: int) -> None:
        """Raise an error if a log differs from the leader's log below the exclusive `end_offset`.

        Call this before an upload.

        Raises:
            DivergedLogError: the leader's log ends below `end_offset`, or has another record at an offset.
            UnprovenLogError: see LeaderLog.check_has.
            BrokerUnavailableError, ClusterRefusedError: the leader does not answer.
        """
        partition, cluster = name_of(listing.partition), self.place.cluster
        ((_, log_end),) = cluster.log_offsets([(partition.topic, partition.partition)]).values()
        check_log_end(partition, end_offset, log_end)
        local = log_of_replica(self.location, listing.filesystem, listing.partition, self.expiry)
        self._compare(local, partition, end_offset)

    def run(
        self,
        partitions: Iterable[TopicIdPartition],
        topics: Iterable[str],
        uploaded: Collection[str],
        leading: Mapping[TopicPartition, str] | None = None,
        *,
        uploads: Collection[TopicIdPartition] = (),
    ) -> Published:
        """Publish the finished segments of partitions. If `place.apply` is False, only plan.

        Errors are in `Published.doubts`: the segments stay uploaded, and the next run publishes them.

        Args:
            partitions: partitions that may have unpublished segments.
            topics: names of all topics of the log directories; topics that a killed run left paused are resumed.
            uploaded: ids of segments that this run uploaded; all other segments are read and compared first.
            leading: URI of the log directory of each partition; needed only if two log directories have a replica of
                a partition.
            uploads: in a plan, the partitions whose segments would be uploaded before the publication.
        """
        try:
            return self._with_uploads(self._run(partitions, topics, uploaded, leading), uploads)
        except TiersnapError as error:
            return Published((), doubts=(error,))

    def _with_uploads(self, done: Published, uploads: Collection[TopicIdPartition]) -> Published:
        """Check the partitions in `uploads`, and add refusals to their plans.

        If one of these partitions may be published, prove the location, too. A partition is skipped if its plan has
        segments or a refusal, because it was already checked.

        Raises:
            ClusterRefusedError, MetadataTopicCompactedError: `__remote_log_metadata` refuses records of tiersnap.
            WrongPlaceError, UnprovenPlaceError: brokers may read another location.
        """
        plans = {plan.partition: plan for plan in done.plans}
        unasked = sorted(each for each in set(uploads) if plans.get(each, PublishPlan(each)).is_idle)
        by_topic = groupby(unasked, key=lambda each: each.topic)
        refusals = {topic: self._refusal_of(topic, list(group)) for topic, group in by_topic}
        for each in unasked:
            refusal = refusals[each.topic]
            if refusal is not None:
                plans[each] = replace(plans.get(each, PublishPlan(each)), refusal=refusal)
        proof = done.proof
        if proof is None and None in refusals.values():
            self.place.metadata_topic.check_takes_records()
            proof = self.place.prove(self.location)
        return replace(done, plans=tuple(plans.values()), proof=proof)

    def _refusal_of(self, topic: str, partitions: Collection[TopicIdPartition]) -> TiersnapError | None:
        """Return the error that forbids publishing a topic's segments; None if its configs allow it."""
        cluster = self.place.cluster
        paused = PausedTopics(cluster, SavedConfigsStore(self.location.store), self.place.talk)
        try:
            check_settings(topic, cluster.settings(topic))
            paused.check_if_copied(partitions)
        except (GateError, *NOT_PAUSED) as refusal:
            return refusal
        return None

    def _run(
        self,
        partitions: Iterable[TopicIdPartition],
        topics: Iterable[str],
        uploaded: Collection[str],
        leading: Mapping[TopicPartition, str] | None,
    ) -> Published:
        cluster, wanted = self.place.cluster, sorted(set(partitions))
        finished: list[RemoteLogSegmentMetadata] = []
        for partition in wanted:
            finished += finished_of(self.location, partition)
        paused = paused_topics(cluster, topics)
        if not finished and not paused:
            return Published(())
        logs = logs_of_replicas(self.location, self.log_dirs, self.selection, self.expiry, leading)
        job = Publish(
            cluster,
            self.place.metadata_topic,
            self.location,
            partial(self.place.prove, self.location),
            dirs_for_epochs(cluster, self.log_dirs),
            local=logs,
            expiry=self.expiry,
            talk=self.place.talk,
            uploaded=frozenset(uploaded),
            check_leader=partial(self._check_leader, logs),
        )
        return job.run(finished, apply=self.place.apply, topics=paused)

    def _check_leader(self, logs: LocalLogs, partition: TopicIdPartition, end_offset: int) -> None:
        """Raise the errors of LeaderLog.check_has if a partition's log is not the leader's log."""
        local = logs.of(partition)
        if local is not None:
            self._compare(local, partition, end_offset)

    def _compare(self, local: LocalLog, partition: TopicIdPartition, end_offset: int) -> None:
        if local.is_running:
            return
        try:
            LeaderLog(self.place.cluster, partition.topic, partition.partition).check_has(local, end_offset)
        except UnprovenLogError:
            if not self.place.is_unproven_allowed:
                raise


def paused_topics(cluster: Cluster, topics: Iterable[str]) -> list[str]:
    """Return the names of topics whose configs have tiersnap's mark of a pause, ascending. Needs one request per topic.

    Topics that this user may not describe are omitted: the user may not pause them either.
    """
    configs = configs_of(cluster, sorted(cluster.topics(topics)))
    return [name for name, settings in configs.items() if is_marked(settings)]
