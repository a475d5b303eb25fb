"""Stuck partitions that are tiered, released: copying off, published, copying on, and the copiers watched.

What was tiered is published while copying is off, by what the records say then: whatever made the copier go on since it
was found stuck, a restart, a new leader or another run, no segment becomes visible twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tiersnap.remote_storage.check.broker_attempts import NOTHING_READ, ComparedAttempts
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_progress import quiet_seconds, watch
from tiersnap.remote_storage.cluster.leader_epochs import Lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.topic_checks import check_copying_was_not_switched_off, is_copying_off
from tiersnap.remote_storage.errors import ClusterRefusedError, CopyingOffError, StillStuckError
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import OVERRIDES
from tiersnap.remote_storage.own_objects.saved_configs import SavedConfigs, SavedConfigsStore, when_nobody_is_at_it
from tiersnap.remote_storage.publish.plan_publication import plan_publication
from tiersnap.remote_storage.publish.publish import publish_plans
from tiersnap.remote_storage.publish.publish_plan import PublishPlan, by_partition
from tiersnap.remote_storage.unblock.disable_copying import own_values, settings_while_off, still_aside, toggle
from tiersnap.remote_storage.unblock.freeing import Freeing
from tiersnap.remote_storage.unblock.unblock_outcome import End
from tiersnap.snapshot.formats.checkpoints import TopicPartition

_log = logging.getLogger(__name__)

_ROUNDS = 3

Plans = Mapping[TopicPartition, PublishPlan]


@dataclass(frozen=True)
class Toggle:
    """The configs with which a topic's copying is disabled and enabled: its own, and the override."""

    saved: SavedConfigs
    off: Mapping[str, str]


@dataclass
class ReleaseTopics:
    """The topics of some stuck partitions."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    reader: MetadataReader
    lineage: Lineage
    records: SavedConfigsStore  # what must be put back, and who is at it
    freeings: Sequence[Freeing]  # told what is planned and what became of them
    segments: Sequence[RemoteLogSegmentMetadata]  # finished copies of their partitions
    broker_id: int | None  # named in records; None for each partition's leader
    talk: Callable[[str], None]  # told what is done, and what takes a while
    attempts: ComparedAttempts = NOTHING_READ  # earlier attempts that were read
    _toggles: dict[str, Toggle] = field(default_factory=dict)

    def ask_settings(self) -> None:
        """Ask the cluster whether copying may be switched off, and on; partitions of other topics wait for a restart.

        Where somebody else has switched it off, partitions are refused.

        Raises:
            UnblockHeldError: another run was at a topic for longer than it should take.
        """
        for topic in sorted({each.name[0] for each in self.freeings}):
            try:
                asked = when_nobody_is_at_it(partial(self._toggle_of, topic), self.talk)
                self.cluster.change_settings(topic, asked.off, validate_only=True)
                self.cluster.change_settings(topic, asked.saved.before, validate_only=True)
                self._toggles[topic] = asked
            except CopyingOffError as refusal:
                for each in self._of(topic):
                    each.refuse(refusal)
            except ClusterRefusedError as refused:
                for each in self._of(topic):
                    each.needs_restart(refused.message)

    def plan(self, freeings: Iterable[Freeing]) -> dict[TopicPartition, PublishPlan]:
        """Plan what is published of the partitions, by the records of now."""
        stuck = {each.stuck.partition for each in freeings}
        wanted = by_partition(each for each in self.segments if each.id.topic_id_partition in stuck)
        cache, attempts = self.reader.read_to_end(), self.attempts

        doubted = attempts.wrong | attempts.differing

        def doubts(_: TopicIdPartition, ids: Collection[str]) -> dict[str, str]:
            return {each: doubted[each] for each in ids if each in doubted}

        plans = plan_publication(
            self.cluster, cache, self.lineage, wanted, stuck=stuck, compared=attempts.right, doubts=doubts
        )
        return {(plan.partition.topic, plan.partition.partition): plan for plan in plans}

    def run(self, plans: Plans) -> None:
        """Publish, with copying off where it can be, until the copiers have looked.

        Raises:
            StillStuckError: copiers go on failing at what is published; the records of their topics stay.
            UnblockHeldError: another run was at a topic for longer than it should take.
            SettingsAsideError: a broker refuses what a topic had set; the record of that topic stays.
        """
        self._publish([each for each in self.freeings if each.end is End.RESTART], plans)
        pending = [topic for topic in self._toggles if self._planned(topic)]
        _log.debug("topics whose copying is switched off and on: %s", pending)
        leaders = [each.stuck.leader for topic in pending for each in self._planned(topic)]
        quiet = quiet_seconds(self.cluster, leaders)
        try:
            for _ in range(_ROUNDS):
                for topic in pending:
                    self._switch_off_and_on(topic)
                self._watch([each for topic in pending for each in self._planned(topic)], quiet)
                pending = [topic for topic in pending if self._planned(topic)]
            for topic, each in self._toggles.items():
                if topic not in pending:
                    self.records.drop(each.saved)
        finally:
            self.records.release()
        if pending:
            raise StillStuckError(
                f"{', '.join(pending)}: the copier goes on failing at what is published",
                hint="restart the leader: its copier then goes on behind what was published",
            )

    def _switch_off_and_on(self, topic: str) -> None:
        try:
            noted = when_nobody_is_at_it(partial(self._note, topic), self.talk)
        except CopyingOffError as refusal:
            for each in self._planned(topic):
                each.refuse(refusal)
            return

        def publish() -> None:
            planned = self._planned(topic)
            self._publish(planned, self.plan(planned))
            self.reader.read_to_end()

        toggle(self.cluster, noted.saved, noted.off, while_off=publish)
        self.talk(f"{topic}: copying was switched off and on again")

    def _note(self, topic: str) -> Toggle:
        """Record what the topic has set, before it is changed; nobody else changes it from then on.

        Raises:
            CopyingOffError: somebody else has switched copying off.
        """
        noted = self._toggle_of(topic)
        self.records.put(noted.saved)
        # Another run may have put its settings back between the two.
        now = self._toggle_of(topic)
        if now != noted:
            self.records.put(now.saved)
        self._toggles[topic] = now
        return now

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

    def _watch(self, freeings: Sequence[Freeing], quiet: float) -> None:
        if freeings:
            self.talk(f"waiting up to {quiet:.0f} s for the copiers to go on")
        found = watch(self.reader, [each.watched(self.reader.cache) for each in freeings], quiet)
        for each in freeings:
            each.conclude(found[each.stuck.partition])

    def _toggle_of(self, topic: str) -> Toggle:
        stuck = [each.stuck.partition for each in self._of(topic)]
        cluster_id, topic_id = self.cluster.cluster_id(), stuck[0].topic_id or ""
        settings = self.cluster.settings(topic)
        if is_copying_off(settings) and self.records.noted(topic, topic_id) is None:
            # By another run: then its record is there, which this raises, or it has just ended.
            self.records.find({topic: topic_id}, cluster_id)
            settings = self.cluster.settings(topic)
        noted = self.records.noted(topic, topic_id)
        # What is aside by our own record has no other value to be put back than the one in there.
        aside = still_aside(settings, noted.before) if noted is not None else {}
        check_copying_was_not_switched_off(topic, settings, aside)
        off = settings_while_off(settings) | {name: OVERRIDES[name] for name in aside}
        before = own_values(settings, off) | aside
        partitions = tuple(each.partition for each in stuck)
        return Toggle(SavedConfigs.of(cluster_id, topic, topic_id, partitions, before), off)

    def _of(self, topic: str) -> list[Freeing]:
        return [each for each in self.freeings if each.name[0] == topic]

    def _planned(self, topic: str) -> list[Freeing]:
        return [each for each in self._of(topic) if each.end is End.PLANNED]
