"""Let stuck copy tasks continue after the upload: disable copying, publish, enable copying, and watch the copy tasks.

Segments are published while copying is disabled. A copy task may have continued after a restart, with a new leader or
through another run. Therefore the records are read again before the publication, so that no offset is published twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_progress import quiet_seconds, watch
from tiersnap.remote_storage.cluster.leader_epochs import Lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.errors import ClusterRefusedError, CopyingOffError
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.publish.paused_topics import PausedTopics
from tiersnap.remote_storage.publish.plan_publication import plan_publication
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan, by_partition
from tiersnap.remote_storage.publish.watch_resumed import still_stuck, watch_resumed
from tiersnap.remote_storage.publish.write_records import publish_plans
from tiersnap.remote_storage.unblock.freeing import Freeing
from tiersnap.remote_storage.unblock.unblock_outcome import End
from tiersnap.remote_storage.verify.broker_attempts import NOTHING_READ, ComparedAttempts
from tiersnap.snapshot.formats.checkpoints import TopicPartition

_log = logging.getLogger(__name__)

Plans = Mapping[TopicPartition, PublishPlan]


@dataclass
class ReleaseTopics:
    """Lets the copy tasks of stuck partitions continue, topic by topic."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    reader: MetadataReader
    lineage: Lineage
    paused: PausedTopics
    freeings: Sequence[Freeing]  # one per partition; the methods set plans and ends in them
    segments: Sequence[RemoteLogSegmentMetadata]  # finished remote segments of these partitions
    broker_id: int | None  # broker id in records; None for each partition's leader
    talk: Callable[[str], None]  # reports progress
    remote: Sequence[str] = ("URI",)  # words of the location (RemoteLocation.words), for commands in hints
    attempts: ComparedAttempts = NOTHING_READ  # earlier copy attempts, compared with the log

    def ask_settings(self) -> None:
        """Ask the cluster whether tiersnap may disable and enable copying.

        If the cluster refuses that for a topic, the leaders of its partitions must be restarted. If another user
        disabled copying of a topic, its partitions are refused.

        Raises:
            UnblockHeldError: another run holds a topic for longer than a run normally takes.
        """
        for topic in sorted({each.name[0] for each in self.freeings}):
            try:
                self.paused.check(self._partitions(topic))
            except CopyingOffError as refusal:
                for each in self._of(topic):
                    each.refuse(refusal)
            except ClusterRefusedError as refused:
                for each in self._of(topic):
                    each.needs_restart(refused.message)

    def plan(self, freeings: Iterable[Freeing]) -> dict[TopicPartition, PublishPlan]:
        """Read the newest records, and return the plans of the partitions by topic and partition number."""
        stuck = {each.stuck.partition for each in freeings}
        wanted = by_partition(each for each in self.segments if each.id.topic_id_partition in stuck)
        cache, attempts = self.reader.read_to_end(), self.attempts

        doubted = attempts.wrong | attempts.differing

        def doubts(_: TopicIdPartition, ids: Collection[str]) -> dict[str, str]:
            return {each: doubted[each] for each in ids if each in doubted}

        plans = plan_publication(
            self.cluster,
            cache,
            self.lineage,
            wanted,
            stuck=stuck,
            compared=attempts.right,
            doubts=doubts,
            remote=self.remote,
        )
        return {_name_of(plan): plan for plan in plans}

    def run(self, plans: Plans) -> None:
        """Publish the plans while copying is disabled, and watch until the copy tasks continue.

        If the cluster refuses to disable copying, the plans are published while copying is enabled.

        Raises:
            StillStuckError: copy tasks still fail at published segments. Saved configs of their topics are kept.
            UnblockHeldError: another run holds a topic for longer than a run normally takes.
            SettingsAsideError: a broker refuses the saved configs of a topic. The saved configs are kept.
        """
        self._publish(self._with_end(End.RESTART, self.freeings), plans)
        pending = list(filter(self._planned, self.paused.checked))
        _log.debug("topics whose copying is disabled and enabled: %s", pending)
        quiet = quiet_seconds(self.cluster, [each.stuck.leader for each in self._planned_of(pending)])
        try:
            for topic in pending:
                self._pause(topic)
            failing = watch_resumed(pending, partial(self._watch, quiet=quiet), self._pause)
            for topic in self.paused.checked:
                if topic not in failing:
                    self.paused.forget(topic)
        finally:
            self.paused.release()
        if failing:
            raise still_stuck(failing)

    def _pause(self, topic: str) -> None:
        def publish() -> None:
            planned = self._planned(topic)
            self._publish(planned, self.plan(planned))
            self.reader.read_to_end()

        try:
            self.paused.while_paused(self._partitions(topic), publish)
        except CopyingOffError as refusal:
            for each in self._planned(topic):
                each.refuse(refusal)

    def _publish(self, freeings: Iterable[Freeing], plans: Plans) -> None:
        mine = []
        for freeing in freeings:
            plan = plans.get(freeing.name)
            if plan is None:
                continue
            if plan.blocked_by is not None:
                freeing.refuse(plan.blocked_by)
            elif plan.leader != freeing.stuck.leader or freeing.stuck.is_at_work(self.reader.cache):
                freeing.skip_freed_by_others(plan)
            else:
                freeing.take(plan)
                mine.append(plan)
        publish_plans(self.metadata_topic, self.reader, mine, self.broker_id)
        written = set(map(_name_of, mine))
        for freeing in self.freeings:
            freeing.is_published |= freeing.name in written

    def _watch(self, topics: Iterable[str], *, quiet: float) -> list[str]:
        """Watch the copy tasks of topics. Return the topics whose copy task fails at published segments."""
        freeings = self._planned_of(topics)
        if freeings:
            self.talk(f"waiting up to {quiet:.0f} s until the copy tasks continue")
        cache = self.reader.cache
        found = watch(self.reader, [each.watched(cache) for each in freeings], quiet)
        for each in freeings:
            each.conclude(found[each.stuck.partition])
        return list(filter(self._planned, topics))

    def _of(self, topic: str) -> list[Freeing]:
        return [each for each in self.freeings if each.name[0] == topic]

    def _partitions(self, topic: str) -> list[TopicIdPartition]:
        return [each.stuck.partition for each in self._of(topic)]

    def _planned(self, topic: str) -> list[Freeing]:
        return self._with_end(End.PLANNED, self._of(topic))

    def _planned_of(self, topics: Iterable[str]) -> list[Freeing]:
        return list(chain.from_iterable(map(self._planned, topics)))

    @staticmethod
    def _with_end(end: End, freeings: Iterable[Freeing]) -> list[Freeing]:
        return [each for each in freeings if each.end is end]


def _name_of(plan: PublishPlan) -> TopicPartition:
    return plan.partition.topic, plan.partition.partition
