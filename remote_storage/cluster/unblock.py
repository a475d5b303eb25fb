"""Partitions whose copier is stuck, freed while their broker runs: tiered, published, and the copier made to look."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tiersnap.remote_storage.cluster.begun import Begun, Records
from tiersnap.remote_storage.cluster.client import Cluster, Setting
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
from tiersnap.remote_storage.errors import ClusterRefusedError, StillStuckError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.presence.finished import finished_of
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.remote_storage.upload.tier_host import HostTier
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import LogDir, split_folder_name
from tiersnap.snapshot.log.selection import matches_topic, named

_ROUNDS = 3


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
    _toggles: dict[str, Toggle] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._metadata_topic = MetadataTopic.of(self.cluster)
        self._records = Records(self.host.store)

    def run(self) -> Unblocked:
        """Plan, and where `host` applies do it.

        Raises:
            UsageError: a stuck partition is in more than one of the directories.
            StillStuckError: copiers go on failing at what is published; the records of their topics stay.
        """
        names = self._partitions_in_sources()
        resumed = self._restore_what_was_left({topic for topic, _ in names})
        topics, settings = tiered_topics(self.cluster, {topic for topic, _ in names})
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
            self._plan_toggles(settings)
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
        left = self._records.find({name: topic.topic_id for name, topic in self.cluster.topics(names).items()})
        for begun in left:
            if not self.host.apply:
                self.talk(f"{begun.topic}: a run was cut short; --apply puts its settings back and goes on")
            elif restore(self.cluster, begun):
                self.talk(f"{begun.topic}: a run was cut short; copying is switched on again")
        return [TopicIdPartition(begun.topic, begun.topic_id, number) for begun in left for number in begun.partitions]

    def _plan_toggles(self, settings: Mapping[str, Mapping[str, Setting]]) -> None:
        """Ask the cluster whether it would take the settings."""
        cluster_id = self.cluster.cluster_id()
        for topic in sorted({topic for topic, _ in self._freeings}):
            stuck = [each.stuck.partition for each in self._of(topic)]
            off = settings_while_off(settings[topic])
            numbers = tuple(each.partition for each in stuck)
            begun = Begun(cluster_id, topic, stuck[0].topic_id or "", numbers, own_values(settings[topic], off))
            try:
                self.cluster.change_settings(topic, off, validate_only=True)
                self._toggles[topic] = Toggle(begun, off)
            except ClusterRefusedError as refused:
                for each in self._of(topic):
                    each.needs_restart(refused.message)

    def _free(self, reader: MetadataReader, lineage: Lineage) -> HostOutcome:
        host = self.host
        if host.apply:
            for each in self._toggles.values():
                self._records.put(each.begun)
        tiered = self._tier()
        plans = {(plan.partition.topic, plan.partition.partition): plan for plan in self._plan(reader, lineage)}
        readiness = {(each.partition.topic, each.partition.partition): each.readiness for each in tiered.partitions}
        for name, freeing in self._freeings.items():
            freeing.plan(readiness.get(name, ()), plans.get(name), applied=host.apply, replace=host.options.replace)
        if host.apply:
            publish_plans(self._metadata_topic, list(plans.values()), self.broker_id)
            still_stuck = self._toggle_and_watch(reader)
            for topic, each in self._toggles.items():
                if topic not in still_stuck:
                    self._records.drop(each.begun)
            if still_stuck:
                raise StillStuckError(
                    f"{', '.join(still_stuck)}: the copier goes on failing at what is published",
                    hint="restart the leader: its copier then goes on behind what was published",
                )
        return tiered

    def _tier(self) -> HostOutcome:
        """Tier the stuck partitions; what brokers have tiered is in remote storage, so nothing is tiered twice."""
        tiered = (
            each
            for uri, log_dir in self.log_dirs.items()
            for each in self.host.partitions(log_dir, uri, named(log_dir, self._freeings))
        )
        return HostOutcome(tuple(tiered))

    def _plan(self, reader: MetadataReader, lineage: Lineage) -> list[PartitionPlan]:
        host, stuck = self.host, [each.stuck.partition for each in self._freeings.values()]
        segments = [segment for partition in stuck for segment in finished_of(host.store, host.layout, partition)]
        return plan_publication(self.cluster, reader.read_to_end(), lineage, segments, stuck=stuck)

    def _toggle_and_watch(self, reader: MetadataReader) -> list[str]:
        """Switch copying off and on until the copiers have looked; returns topics of those that have not."""
        pending = [topic for topic in self._toggles if self._planned(topic)]
        leaders = [each.stuck.leader for topic in pending for each in self._planned(topic)]
        quiet = quiet_seconds(self.cluster, leaders)
        for _ in range(_ROUNDS):
            for topic in pending:
                settings = self._toggles[topic]
                toggle(self.cluster, settings.begun, settings.off, while_off=reader.read_to_end)
                self.talk(f"{topic}: copying was switched off and on again")
            planned = [each for topic in pending for each in self._planned(topic)]
            if planned:
                self.talk(f"waiting up to {quiet:.0f} s for the copiers to go on")
            found = watch(reader, [each.watched(reader.cache) for each in planned], quiet)
            for each in planned:
                each.conclude(found[each.stuck.partition])
            pending = [topic for topic in pending if self._planned(topic)]
        return pending

    def _of(self, topic: str) -> list[Freeing]:
        return [each for (name, _), each in self._freeings.items() if name == topic]

    def _planned(self, topic: str) -> list[Freeing]:
        return [each for each in self._of(topic) if each.end is End.PLANNED]
