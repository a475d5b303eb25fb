"""Partitions whose copier is stuck, freed while their broker runs: tiered, published, and the copier made to look.

What was tiered is published while copying is off, by what the records say then: whatever made the copier go on since it
was found stuck, a restart, a new leader or another run, no segment becomes visible twice.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tiersnap.remote_storage.cluster.begun import Begun, Records
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copier import quiet_seconds, watch
from tiersnap.remote_storage.cluster.freeing import End, Freeing, exit_code_of
from tiersnap.remote_storage.cluster.lineage import Lineage, open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.planner import plan_publication
from tiersnap.remote_storage.cluster.publish import publish_plans
from tiersnap.remote_storage.cluster.publish_plan import PartitionPlan
from tiersnap.remote_storage.cluster.raw_connection import can_speak
from tiersnap.remote_storage.cluster.stuck import find_stuck, tiered_topics
from tiersnap.remote_storage.cluster.toggle import own_values, restore, settings_while_off, toggle
from tiersnap.remote_storage.errors import ClusterRefusedError, StillStuckError, UnblockHeldError
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.presence.finished import finished_of
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.remote_storage.upload.tier_host import HostTier
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import LogDir, split_folder_name
from tiersnap.snapshot.log.selection import matches_topic, named

_ROUNDS = 3
_OTHERS_SECONDS = 180.0  # a run is at a topic for a minute or two
_POLL_SECONDS = 2.0
T = TypeVar("T")


@dataclass
class Toggle:
    """How a topic is switched off and on: what it had, and what it has in between."""

    begun: Begun
    off: Mapping[str, str]


@dataclass(frozen=True)
class Unblocked:
    """What a run found and did.

    Attributes:
        candidates: number of tiered partitions that were looked at.
        freeings: the stuck ones.
        tiered: what was copied of them, or would be.
    """

    candidates: int
    freeings: tuple[Freeing, ...] = ()
    tiered: HostOutcome = field(default_factory=lambda: HostOutcome(()))

    def exit_code(self, *, apply: bool) -> ExitCode:
        """That of tiering where a copy failed, else by how the partitions ended."""
        return self.tiered.exit_code(apply=apply) if self.tiered.errors else exit_code_of(self.freeings)


@dataclass
class Unblock:
    """One run.

    Attributes:
        host: how stuck partitions are tiered, and whether anything is (`apply`).
        log_dirs: of one broker, by URI.
        topic: a regular expression for whole topic names; None for all.
        broker_id: named in records; None for each partition's leader.
        talk: told what is done, and what takes a while.
    """

    host: HostTier
    log_dirs: Mapping[str, LogDir]
    topic: re.Pattern[str] | None
    cluster: Cluster
    broker_id: int | None
    talk: Callable[[str], None]
    _freeings: dict[TopicPartition, Freeing] = field(default_factory=dict)
    _segments: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    _toggles: dict[str, Toggle] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._metadata_topic = MetadataTopic.of(self.cluster)
        self._records = Records(self.host.store)

    def run(self) -> Unblocked:
        """Plan, and where `host` applies do it.

        Raises:
            UsageError: a stuck partition is in more than one of the directories.
            StillStuckError: copiers go on failing at what is published; the records of their topics stay.
            UnblockHeldError: another run was at a topic for longer than it should take.
        """
        names = self._partitions_in_sources()
        resumed = self._restore_what_was_left({topic for topic, _ in names})
        topics = tiered_topics(self.cluster, {topic for topic, _ in names})
        candidates = {
            TopicIdPartition(topic, topics[topic].topic_id, number): topics[topic].leaders[number]
            for topic, number in names
            if topic in topics and topics[topic].leaders.get(number, -1) >= 0
        }
        log_dirs = () if can_speak(self.cluster.properties) else tuple(self.log_dirs)
        with self._metadata_topic.read(candidates) as reader, open_lineage(self.cluster, log_dirs) as lineage:
            stuck = find_stuck(self.cluster, reader, lineage, candidates, resumed)
            if not stuck:
                return Unblocked(len(candidates))
            self._freeings = {each.name: each for each in map(Freeing, stuck)}
            self._refuse_two_replicas()
            tiered = self._free(reader, lineage)
        return Unblocked(len(candidates), tuple(self._freeings.values()), tiered)

    def _partitions_in_sources(self) -> list[TopicPartition]:
        folders = [split_folder_name(name) for log_dir in self.log_dirs.values() for name in log_dir.folders]
        return sorted({name for name in folders if name and matches_topic(name[0], self.topic)})

    def _refuse_two_replicas(self) -> None:
        found = Counter(split_folder_name(name) for log_dir in self.log_dirs.values() for name in log_dir.folders)
        for topic, number in self._freeings:
            if found[topic, number] > 1:
                raise UsageError(
                    f"{topic}-{number} is in more than one --source: replicas of one partition",
                    hint="give the log directories of one broker, best of the leader",
                )

    def _restore_what_was_left(self, names: set[str]) -> list[TopicIdPartition]:
        """Partitions that an earlier run was at; with --apply what it put aside is put back."""
        topic_ids = {name: topic.topic_id for name, topic in self.cluster.topics(names).items()}
        left = self._when_no_other_is_at_it(lambda: self._records.find(topic_ids))
        for begun in left:
            if not self.host.apply:
                self.talk(f"{begun.topic}: a run was cut short; --apply puts its settings back and goes on")
            elif restore(self.cluster, begun):
                self.talk(f"{begun.topic}: a run was cut short; copying is switched on again")
        return [TopicIdPartition(begun.topic, begun.topic_id, number) for begun in left for number in begun.partitions]

    def _when_no_other_is_at_it(self, act: Callable[[], T]) -> T:
        deadline, told = time.monotonic() + _OTHERS_SECONDS, False
        while True:
            try:
                return act()
            except UnblockHeldError as held:
                if time.monotonic() > deadline:
                    raise
                if not told:
                    self.talk(f"{held.message}: waiting for it")
                told = True
                time.sleep(_POLL_SECONDS)

    def _free(self, reader: MetadataReader, lineage: Lineage) -> HostOutcome:
        host = self.host
        tiered = self._tier()
        stuck = [each.stuck.partition for each in self._freeings.values()]
        self._segments = [each for partition in stuck for each in finished_of(host.store, host.layout, partition)]
        for topic in sorted({topic for topic, _ in self._freeings}):
            self._plan_toggle(topic)
        plans = self._plan(reader, lineage, self._freeings.values())
        readiness = {(each.partition.topic, each.partition.partition): each.readiness for each in tiered.partitions}
        for name, freeing in self._freeings.items():
            freeing.plan(readiness.get(name, ()), plans.get(name), applied=host.apply, replace=host.options.replace)
        if host.apply:
            waiting = [
                plans[name] for name, each in self._freeings.items() if each.end is End.RESTART and name in plans
            ]
            publish_plans(self._metadata_topic, waiting, self.broker_id)
            self._toggle_and_watch(reader, lineage)
        return tiered

    def _tier(self) -> HostOutcome:
        """Tier the stuck partitions; what brokers have tiered is in remote storage, so nothing is tiered twice."""
        tiered = (
            each
            for uri, log_dir in self.log_dirs.items()
            for each in self.host.partitions(log_dir, uri, named(log_dir, self._freeings))
        )
        return HostOutcome(tuple(tiered))

    def _plan_toggle(self, topic: str) -> None:
        """Ask the cluster whether it would take the settings."""
        toggle_ = self._toggle_of(topic)
        try:
            self.cluster.change_settings(topic, toggle_.off, validate_only=True)
            self._toggles[topic] = toggle_
        except ClusterRefusedError as refused:
            for each in self._of(topic):
                each.needs_restart(refused.message)

    def _toggle_of(self, topic: str) -> Toggle:
        settings = self.cluster.settings(topic)
        stuck, off = [each.stuck.partition for each in self._of(topic)], settings_while_off(settings)
        numbers = tuple(each.partition for each in stuck)
        before = own_values(settings, off)
        return Toggle(Begun(self.cluster.cluster_id(), topic, stuck[0].topic_id or "", numbers, before), off)

    def _plan(
        self, reader: MetadataReader, lineage: Lineage, freeings: Iterable[Freeing]
    ) -> dict[TopicPartition, PartitionPlan]:
        stuck = {each.stuck.partition for each in freeings}
        segments = [each for each in self._segments if each.id.topic_id_partition in stuck]
        plans = plan_publication(self.cluster, reader.read_to_end(), lineage, segments, stuck=stuck)
        return {(plan.partition.topic, plan.partition.partition): plan for plan in plans}

    def _toggle_and_watch(self, reader: MetadataReader, lineage: Lineage) -> None:
        """Switch copying off, publish, and switch it on, until the copiers have looked."""
        pending = [topic for topic in self._toggles if self._planned(topic)]
        leaders = [each.stuck.leader for topic in pending for each in self._planned(topic)]
        quiet = quiet_seconds(self.cluster, leaders)
        try:
            for _ in range(_ROUNDS):
                self._toggle_once(pending, reader, lineage)
                planned = [each for topic in pending for each in self._planned(topic)]
                if planned:
                    self.talk(f"waiting up to {quiet:.0f} s for the copiers to go on")
                found = watch(reader, [each.watched(reader.cache) for each in planned], quiet)
                for each in planned:
                    each.conclude(found[each.stuck.partition])
                pending = [topic for topic in pending if self._planned(topic)]
            for topic, toggle_ in self._toggles.items():
                if topic not in pending:
                    self._records.drop(toggle_.begun)
        finally:
            self._records.leave()
        if pending:
            raise StillStuckError(
                f"{', '.join(pending)}: the copier goes on failing at what is published",
                hint="restart the leader: its copier then goes on behind what was published",
            )

    def _toggle_once(self, topics: Iterable[str], reader: MetadataReader, lineage: Lineage) -> None:
        for topic in topics:
            toggle_ = self._when_no_other_is_at_it(partial(self._record, topic))
            while_off = partial(self._publish, topic, reader, lineage)
            toggle(self.cluster, toggle_.begun, toggle_.off, while_off=while_off)
            self.talk(f"{topic}: copying was switched off and on again")

    def _record(self, topic: str) -> Toggle:
        """Note what the topic has set, before it is changed; nobody else changes it from then on."""
        toggle_ = self._toggle_of(topic)
        self._records.put(toggle_.begun)
        # Another run may have put its settings back between the two.
        now = self._toggle_of(topic)
        if now != toggle_:
            self._records.put(now.begun)
        self._toggles[topic] = now
        return now

    def _publish(self, topic: str, reader: MetadataReader, lineage: Lineage) -> None:
        """Publish what is still to be published now that no copier is at work; what others freed is left to them."""
        planned = self._planned(topic)
        plans = self._plan(reader, lineage, planned)
        mine = []
        for freeing in planned:
            plan = plans.get(freeing.name)
            if plan is None:
                continue
            if plan.refusal is not None:
                freeing.refuse(plan.refusal)
            elif plan.leader != freeing.stuck.leader or freeing.stuck.is_at_work(reader.cache):
                freeing.leave(plan)
            else:
                freeing.take(plan)
                mine.append(plan)
        publish_plans(self._metadata_topic, mine, self.broker_id)
        reader.read_to_end()

    def _of(self, topic: str) -> list[Freeing]:
        return [each for (name, _), each in self._freeings.items() if name == topic]

    def _planned(self, topic: str) -> list[Freeing]:
        return [each for each in self._of(topic) if each.end is End.PLANNED]
