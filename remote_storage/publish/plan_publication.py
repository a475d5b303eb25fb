"""Plan a publication from the cluster's current records and topic configs."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import Lineage
from tiersnap.remote_storage.cluster.log_ends import check_has_leader, check_log_end, leader_offsets
from tiersnap.remote_storage.cluster.topic_checks import ClusterTopics, check_copier_rests, check_settings
from tiersnap.remote_storage.cluster.topics import TopicConfig, leaders_of
from tiersnap.remote_storage.errors import ClusterRefusedError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    outside_lineage,
)
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan, plan_segments
from tiersnap.snapshot.errors import CorruptDataError, GateError, TransientError

_log = logging.getLogger(__name__)
Doubts = Callable[[TopicIdPartition, Collection[str]], Mapping[str, str]]
"""Reads segments and returns why they are wrong, by segment id. Right segments are omitted."""
_OF_ONE_PARTITION = (GateError, TransientError, CorruptDataError, ClusterRefusedError)


def plan_publication(
    cluster: Cluster,
    cache: MetadataCache,
    lineage: Lineage,
    wanted: Mapping[TopicIdPartition, Sequence[RemoteLogSegmentMetadata]],
    *,
    stuck: Collection[TopicIdPartition] = (),
    complete_segments: Callable[[TopicIdPartition, Collection[str]], Collection[str]] | None = None,
    wrong: Collection[str] = (),
    compared: Collection[str] = (),
    doubts: Doubts | None = None,
    remote: Sequence[str] = ("URI",),
) -> list[PublishPlan]:
    """Return a publication plan for each partition. A refusal is in the plan and is not raised.

    A refused partition publishes nothing. Topic configs are checked only if the topic has segments to publish.

    Args:
        wanted: finished segments by partition.
        stuck: partitions that are planned even if copying is enabled. Other partitions are refused if copying is
            enabled. The caller must make the copy tasks of `stuck` read the published records.
        complete_segments: returns which segment ids of a partition are complete. Without it, published segments count
            as complete, and only segments that end above all published segments are planned.
        wrong: see plan_segments.
        compared: ids of brokers' copy attempts that may be published, because every object was compared with the log.
        doubts: reads the segments to publish (see `verify.compare_whole`). Omit it if the caller has read or uploaded
            these segments.
        remote: --remote and its options as words (RemoteLocation.words). Hints print them in commands.
    """
    topics = ClusterTopics.ask(cluster, (partition.topic for partition in wanted))
    settings: dict[str, Mapping[str, TopicConfig]] = {}
    offsets = leader_offsets(cluster, leaders_of(topics.described, wanted))

    def check_topic(topic: str, *, copier_may_work: bool) -> None:
        if topic not in settings:
            settings[topic] = cluster.settings(topic)
        check_settings(topic, settings[topic])
        if not copier_may_work:
            check_copier_rests(topic, settings[topic])

    plans = []
    for partition, listed in wanted.items():
        found = list(_without_unread(listed, cache.begun_by_brokers(partition).difference(compared)))
        plan = PublishPlan(partition, (), topics.leader_of(partition))
        try:
            topics.check(partition)
            check_has_leader(partition, plan.leader)
            start, log_end = offsets[partition]
            answers = lineage(partition, plan.leader)
            why_outside = partial(outside_lineage, end_offset_for=answers, log_start_offset=start)
            planned = plan_segments(
                partition,
                found,
                cache,
                log_start_offset=start,
                why_outside=why_outside,
                complete_segments=None if complete_segments is None else partial(complete_segments, partition),
                wrong=wrong,
            )
            plan = replace(plan, segments=planned)
            if not plan.is_done:
                check_log_end(partition, plan.end_to_publish, log_end)
                check_topic(partition.topic, copier_may_work=partition in stuck)
                if doubts is not None:
                    _refuse_doubted(plan, doubts, remote)
        except _OF_ONE_PARTITION as refusal:
            plan = replace(plan, refusal=refusal)
        plans.append(plan)
    return plans


def _without_unread(
    listed: Iterable[RemoteLogSegmentMetadata], unread: Collection[str]
) -> Iterator[RemoteLogSegmentMetadata]:
    """Yield the segments whose ids are not in `unread`. Log a warning for each skipped segment."""
    for each in listed:
        if each.id.segment_id in unread:
            _log.warning("skipped: %s: a broker did not finish its copy attempt", each.id)
        else:
            yield each


def _refuse_doubted(plan: PublishPlan, doubts: Doubts, remote: Sequence[str]) -> None:
    told = {each.id.segment_id: each for each in plan.to_tell}
    for segment_id, why in doubts(plan.partition, told.keys()).items():
        wrong = told[segment_id]
        raise CorruptDataError(
            f"{wrong.id}: the offsets {wrong.start_offset} to {wrong.end_offset} are not published: {why}",
            hint="before the next publish, upload the segment again on the leader's host: tiersnap tier LOGDIR "
            f"--remote {shlex.join(remote)} --upload-again {segment_id} --apply",
        )
