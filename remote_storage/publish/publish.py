"""Publish finished segments: planned for all, then topic by topic asked again, published, and read back.

Another writer may have come between the plan and the records: a copier that was switched on, another tool. The topic
says what it did, and whoever publishes stops there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from tiersnap.remote_storage.check.local_log import LocalLogs
from tiersnap.remote_storage.check.read_first import find_doubts
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.topic_checks import is_copying_off
from tiersnap.remote_storage.errors import (
    ClusterRefusedError,
    CopyingSwitchedOnError,
    UnblockHeldError,
)
from tiersnap.remote_storage.inventory.complete import complete_segments
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.remote_storage.own_objects.saved_configs import SavedConfigsStore
from tiersnap.remote_storage.publish.location_proof import PlaceProof
from tiersnap.remote_storage.publish.plan_publication import plan_publication
from tiersnap.remote_storage.publish.publish_plan import PublishPlan, by_partition
from tiersnap.remote_storage.publish.write_records import publish_plans
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

_log = logging.getLogger(__name__)

_FINISHED = SegmentState.COPY_SEGMENT_FINISHED
Segments = dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]


@dataclass(frozen=True, slots=True)
class Published:
    """The plan, and the records that were written."""

    plans: Sequence[PublishPlan]  # as they were carried out, or would be
    records: int = 0  # number that were written
    doubts: Sequence[TiersnapError] = ()  # topics whose copying may not have been off all the while
    proof: PlaceProof | None = None  # that brokers read this place; None where there is nothing to tell them

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors of the plans, and doubts."""
        return [*(error for plan in self.plans for error in plan.errors), *self.doubts]


@dataclass(frozen=True)
class Publish:
    """One run."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    location: RemoteLocation  # remote storage, as brokers use it
    # proves that they do; called once, before the first record and only where there is one
    prove: Callable[[], PlaceProof]
    log_dirs: Sequence[str] = ()  # of leaders, for leader epochs; empty where the leaders themselves can be asked
    broker_id: int | None = None  # named in records; None for each partition's leader
    local: LocalLogs = field(default_factory=LocalLogs)  # of leaders, to compare what is published
    expiry: BrokerExpiry = field(  # what brokers forget: a snapshot may lack it
        default_factory=lambda: BrokerExpiry(int(time.time() * 1000), DEFAULT_PRODUCER_EXPIRATION_MS)
    )
    _read: dict[str, str] = field(default_factory=dict)  # why segments are wrong, "" of right ones, by id

    def run(self, finished: Iterable[RemoteLogSegmentMetadata], *, apply: bool) -> Published:
        """Plan finished segments by what `__remote_log_metadata` says now, and publish them.

        Planning a fleet takes minutes, so each topic is planned once more right before its records are written. Copies
        that brokers know and that are lost are looked for in all partitions of the topics.

        Args:
            finished: at least one.

        Raises:
            WrongPlaceError, UnprovenPlaceError: nothing is published to brokers that may read another place.
        """
        segments = by_partition(finished)
        records, doubts = 0, []
        others = [each for each in self._of_topics(segments) if each not in segments]
        with self.metadata_topic.read([*segments, *others]) as reader:
            cache = reader.read_to_end()
            copied: Segments = {each: [] for each in others if any(cache.in_state(each, _FINISHED))}
            plans = {plan.partition: plan for plan in self._plan(reader, segments | copied)}
            proof = self.prove() if any(plan.is_open for plan in plans.values()) else None
            opened = [plan.partition for plan in plans.values() if apply and plan.is_open]
            for topic, partitions in groupby(opened, key=lambda each: each.topic):
                again = self._plan(reader, {each: segments[each] for each in partitions})
                plans.update((plan.partition, plan) for plan in again)
                written = publish_plans(self.metadata_topic, reader, again, self.broker_id)
                records += written
                doubt = self._doubt(topic) if written else None
                doubts += [] if doubt is None else [doubt]
        told = [plan for plan in plans.values() if plan.partition in segments or plan.errors]
        return Published(told, records, doubts, proof)

    def _of_topics(self, segments: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
        ids = {(each.topic, each.topic_id) for each in segments}
        topics = self.cluster.topics(name for name, _ in ids).values()
        same = [topic for topic in topics if (topic.name, topic.topic_id) in ids]
        return [TopicIdPartition(topic.name, topic.topic_id, number) for topic in same for number in topic.leaders]

    def _plan(self, reader: MetadataReader, wanted: Segments) -> list[PublishPlan]:
        whole = partial(self._complete_segments, reader)
        with open_lineage(self.cluster, self.log_dirs) as lineage:
            cache = reader.read_to_end()
            plans = plan_publication(
                self.cluster, cache, lineage, wanted, complete_segments=whole, doubts=self._find_doubts
            )
        unblocking = SavedConfigsStore(self.location.store)
        return [_refuse_beside(unblocking, plan) if plan.is_open else plan for plan in plans]

    def _complete_segments(
        self, reader: MetadataReader, partition: TopicIdPartition, segment_ids: Collection[str]
    ) -> Collection[str]:
        """Those that are whole, or that brokers have begun to delete: of a deletion the record comes first."""
        whole = complete_segments(self.location, partition, segment_ids)
        if len(whole) == len(segment_ids):
            return whole
        finished = {each.id.segment_id for each in reader.read_to_end().in_state(partition, _FINISHED)}
        return whole.union(each for each in segment_ids if each not in finished)

    def _find_doubts(self, partition: TopicIdPartition, ids: Collection[str]) -> Mapping[str, str]:
        """Read segments, each once in a run; return why some are wrong."""
        unread = set(ids) - self._read.keys()
        local = self.local.of(partition)
        compare = None if local is None else local.compare
        self._read.update(
            dict.fromkeys(unread, "") | find_doubts(self.location, partition, unread, compare, self.expiry)
        )
        return {each: self._read[each] for each in ids if self._read[each]}

    def _doubt(self, topic: str) -> TiersnapError | None:
        try:
            if is_copying_off(self.cluster.settings(topic)):
                return None
        except (TransientError, ClusterRefusedError) as error:
            return error
        _log.warning("copying was switched on while it was published: topic=%s", topic)
        return CopyingSwitchedOnError(
            f"{topic}: copying was switched on while it was published: its copiers do not see all of it, and copy the "
            "rest again",
            hint=f"kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=true with endless retention, then "
            "false: they look again, and go on behind it. What was copied twice stays so: docs/runbook.md, "
            "exit code 6",
        )


def _refuse_beside(unblocking: SavedConfigsStore, plan: PublishPlan) -> PublishPlan:
    """Refuse what unblock is at: it switches a topic's copying off for a moment only."""
    partition = plan.partition
    if not unblocking.has_saved(partition.topic, partition.topic_id or ""):
        return plan
    _log.debug("not published beside unblock: %s", partition)
    refusal = UnblockHeldError(
        f"tiersnap unblock has begun with {partition.topic} and has not ended: copying is off for a moment only",
        hint="wait for it, or run tiersnap unblock --apply again if it was killed; then run the same command again",
    )
    return replace(plan, refusal=refusal)
