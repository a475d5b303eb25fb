"""The plan of a publication, by the records and configs that the cluster has now."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import Lineage
from tiersnap.remote_storage.cluster.topic_checks import check_copier_rests, check_identity, check_settings
from tiersnap.remote_storage.cluster.topics import TopicConfig, leaders_of
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError
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
"""Reads segments by their ids; returns the reasons why some are wrong, by id."""
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
    """Plan the publication of partitions; a refusal is part of a partition's plan, not raised.

    A refused partition publishes nothing. A topic's configs are checked only if it has something to publish.

    Args:
        wanted: finished segments by partition.
        stuck: partitions whose copying may be enabled, because their copy tasks finish nothing. The caller makes these
            tasks read the records again.
        complete_segments: returns the complete ones of some segment ids of a partition. Without it, the segments that
            brokers know are taken to be complete, and only segments after them are planned.
        wrong: see plan_segments.
        compared: ids of brokers' attempts without COPY_SEGMENT_FINISHED that may be finished, because every object was
            read and compared with the log.
        doubts: reads the segments that would be published (see `verify.compare_whole`). Without it, the caller has read
            them, or has just uploaded them.
        remote: words of the location (RemoteLocation.words), for the command that uploads a wrong segment again.
    """
    names = {partition.topic for partition in wanted}
    topics = cluster.topics(names)
    hidden = cluster.hidden(names - topics.keys())
    settings: dict[str, Mapping[str, TopicConfig]] = {}
    starts = cluster.log_starts(leaders_of(topics, wanted))

    def check_topic(topic: str, *, copier_may_work: bool) -> None:
        if topic not in settings:
            settings[topic] = cluster.settings(topic)
        check_settings(topic, settings[topic])
        if not copier_may_work:
            check_copier_rests(topic, settings[topic])

    plans = []
    for partition, listed in wanted.items():
        found = list(_without_unread(listed, cache.begun_by_brokers(partition).difference(compared)))
        topic = topics.get(partition.topic)
        plan = PublishPlan(partition, (), -1 if topic is None else topic.leaders.get(partition.partition, -1))
        try:
            check_identity(partition, topics, hidden)
            if plan.leader < 0:
                raise BrokerUnavailableError(f"{partition} has no leader now", hint="run the same command again")
            start = starts[partition]
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
    """Yield the segments whose ids are not among `unread`, and log the others."""
    for each in listed:
        if each.id.segment_id in unread:
            _log.warning("left out: %s: a broker began it and did not finish it", each.id)
        else:
            yield each


def _refuse_doubted(plan: PublishPlan, doubts: Doubts, remote: Sequence[str]) -> None:
    told = {each.id.segment_id: each for each in plan.to_tell}
    for segment_id, why in doubts(plan.partition, told.keys()).items():
        wrong = told[segment_id]
        raise CorruptDataError(
            f"{wrong.id}: offsets {wrong.start_offset} to {wrong.end_offset} are not published: {why}",
            hint="on the leader's host, then publish again: "
            f"tiersnap tier LOGDIR --remote {shlex.join(remote)} --upload-again {segment_id} --apply",
        )
