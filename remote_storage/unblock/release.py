"""Release stuck partitions after the upload: disable copying, publish, enable copying, and watch the copy tasks.

Segments are published while copying is disabled, after the records were read again. A restart, a new leader or another
run may have freed the copy task since it was found stuck; even then no segment becomes visible twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
    """The topics of some stuck partitions."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    reader: MetadataReader
    lineage: Lineage
    paused: PausedTopics
    freeings: Sequence[Freeing]  # the partitions; their plans and ends are set here
    segments: Sequence[RemoteLogSegmentMetadata]  # finished remote segments of their partitions
    broker_id: int | None  # broker id in records; None for each partition's leader
    talk: Callable[[str], None]  # reports progress
    remote: Sequence[str] = ("URI",)  # options that name the location, for commands in hints
    attempts: ComparedAttempts = NOTHING_READ  # earlier copy attempts, compared with the log

    def ask_settings(self) -> None:
        """Ask the cluster whether copying may be disabled and enabled.

        If the cluster refuses that for a topic, its partitions need a restart of their leaders. If another user has
        disabled copying, the partitions are refused.

        Raises:
            UnblockHeldError: another run held a topic for longer than it should take.
        """
        for topic in sorted({each.name[0] for each in self.freeings}):
            try:
                self.paused.check([each.stuck.partition for each in self._of(topic)])
            except CopyingOffError as refusal:
                for each in self._of(topic):
                    each.refuse(refusal)
            except ClusterRefusedError as refused:
                for each in self._of(topic):
                    each.needs_restart(refused.message)

    def plan(self, freeings: Iterable[Freeing]) -> dict[TopicPartition, PublishPlan]:
        """Read the newest records, and plan the publication of the partitions."""
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
        return {(plan.partition.topic, plan.partition.partition): plan for plan in plans}

    def run(self, plans: Plans) -> None:
        """Publish, with copying disabled if the cluster permits that, and watch until the copy tasks continue.

        Raises:
            StillStuckError: copy tasks still fail at published segments; the saved configs of their topics stay.
            UnblockHeldError: another run held a topic for longer than it should take.
            SettingsAsideError: a broker refuses the saved configs of a topic; they stay saved.
        """
        self._publish([each for each in self.freeings if each.end is End.RESTART], plans)
        pending = [topic for topic in self.paused.checked if self._planned(topic)]
        _log.debug("topics whose copying is switched off and on: %s", pending)
        leaders = [each.stuck.leader for topic in pending for each in self._planned(topic)]
        quiet = quiet_seconds(self.cluster, leaders)
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
            self.paused.while_paused([each.stuck.partition for each in self._of(topic)], publish)
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
        written = {(plan.partition.topic, plan.partition.partition) for plan in mine}
        for freeing in self.freeings:
            freeing.is_published |= freeing.name in written

    def _watch(self, topics: Iterable[str], *, quiet: float) -> list[str]:
        """Watch the copy tasks of topics; return the topics with a copy task that fails at published segments."""
        freeings = [each for topic in topics for each in self._planned(topic)]
        if freeings:
            self.talk(f"waiting up to {quiet:.0f} s for the copiers to go on")
        found = watch(self.reader, [each.watched(self.reader.cache) for each in freeings], quiet)
        for each in freeings:
            each.conclude(found[each.stuck.partition])
        return [topic for topic in topics if self._planned(topic)]

    def _of(self, topic: str) -> list[Freeing]:
        return [each for each in self.freeings if each.name[0] == topic]

    def _planned(self, topic: str) -> list[Freeing]:
        return [each for each in self._of(topic) if each.end is End.PLANNED]
