"""`tiersnap unblock`: partitions whose copier is stuck, freed while their broker runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.cluster import cluster_options
from tiersnap.jobs.options.host import HostRequest, host_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.publish import publish_plans
from tiersnap.jobs.tier import errors_of, exit_code, findings_of, tell_failures
from tiersnap.remote_storage.cluster.begun import Begun, Records
from tiersnap.remote_storage.cluster.client import Cluster, Setting
from tiersnap.remote_storage.cluster.copier import quiet_seconds, watch
from tiersnap.remote_storage.cluster.freeing import End, Freeing, exit_code_of
from tiersnap.remote_storage.cluster.lineage import Lineage, open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.planner import plan_publication
from tiersnap.remote_storage.cluster.publish_plan import PartitionPlan
from tiersnap.remote_storage.cluster.raw_connection import can_speak
from tiersnap.remote_storage.cluster.stuck import find_stuck, tiered_topics
from tiersnap.remote_storage.cluster.toggle import own_values, restore, settings_while_off, toggle
from tiersnap.remote_storage.errors import ClusterRefusedError, StillStuckError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.presence.finished import finished_of
from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import LogDir, located, open_log_dir, split_folder_name
from tiersnap.snapshot.log.selection import matches_topic, named

COLUMNS = ("topic", "partition", "remote_ends_at", "attempts", "tier", "publish", "outcome", "reason")
_ROUNDS = 3


@click.command()
@cluster_options
@click.option("--source", "sources", multiple=True, required=True, help="An entry of a broker's log.dirs.")
@host_options
@params.output_option
@click.pass_obj
def unblock(
    output: Output, sources: tuple[str, ...], request: HostRequest, cluster: Cluster, broker_id: int | None
) -> int:
    """Free partitions whose tiering is stuck, without a restart.

    Looks in --source for partitions whose copier begins the same segment again and again, for want of a producer
    snapshot. Their segments are tiered with computed snapshots and published; then remote.log.copy.disable is set true
    and false again, so that the copier looks anew and goes on behind them. No file in the log directory is touched.

    While copying is off, about two seconds, a local retention of the topic's own is put aside as well. What was set
    before is recorded in remote storage first: killed at any point, the same command puts it back and finishes.

    Where the cluster refuses that setting (ZooKeeper mode, Kafka before 3.9) segments are tiered and published, and a
    restart of the leader is what makes its copier look.
    """
    log_dirs = {located(source): open_log_dir(source) for source in sources}
    records = Records(request.host.store)
    return Unblock(output, request, log_dirs, cluster, broker_id, MetadataTopic.of(cluster), records).run()


@dataclass
class Toggle:
    """How a topic is switched off and on: what it had, and what it has in between."""

    begun: Begun
    off: Mapping[str, str]


@dataclass
class Unblock:
    """One run of the command; `log_dirs` by URI."""

    output: Output
    request: HostRequest
    log_dirs: Mapping[str, LogDir]
    cluster: Cluster
    broker_id: int | None
    metadata_topic: MetadataTopic
    records: Records
    freeings: dict[TopicPartition, Freeing] = field(default_factory=dict)
    toggles: dict[str, Toggle] = field(default_factory=dict)

    def run(self) -> ExitCode:
        """Plan, and with --apply do it."""
        names = self._partitions_in_sources()
        resumed = self._restore_what_was_left({topic for topic, _ in names})
        topics, settings = tiered_topics(self.cluster, {topic for topic, _ in names})
        candidates = {
            TopicIdPartition(topic, topics[topic].topic_id, number): topics[topic].leaders[number]
            for topic, number in names
            if topic in topics and topics[topic].leaders.get(number, -1) >= 0
        }
        log_dirs = () if can_speak(self.cluster.properties) else tuple(self.log_dirs)
        with self.metadata_topic.read(candidates) as reader, open_lineage(self.cluster, log_dirs) as lineage:
            stuck = find_stuck(self.cluster, reader, lineage, candidates, resumed)
            self.freeings = {each.name: each for each in map(Freeing, stuck)}
            if not stuck:
                self.output.rows("unblock", [], columns=COLUMNS)
                self.output.talk(f"none of {len(candidates)} tiered partitions is stuck")
                return ExitCode.OK
            self._refuse_two_replicas()
            self._plan_toggles(settings)
            return self._free(reader, lineage)

    def _partitions_in_sources(self) -> list[TopicPartition]:
        folders = [split_folder_name(name) for log_dir in self.log_dirs.values() for name in log_dir.folders]
        return sorted({name for name in folders if name and matches_topic(name[0], self.request.topic)})

    def _refuse_two_replicas(self) -> None:
        found = Counter(split_folder_name(name) for log_dir in self.log_dirs.values() for name in log_dir.folders)
        for topic, number in self.freeings:
            if found[topic, number] > 1:
                raise UsageError(
                    f"{topic}-{number} is in more than one --source: replicas of one partition",
                    hint="give the log directories of one broker, best of the leader",
                )

    def _restore_what_was_left(self, names: set[str]) -> list[TopicIdPartition]:
        """Partitions that an earlier run was at; with --apply what it put aside is put back."""
        left = self.records.find({name: topic.topic_id for name, topic in self.cluster.topics(names).items()})
        for begun in left:
            if not self.request.host.apply:
                self.output.talk(f"{begun.topic}: a run was cut short; --apply puts its settings back and goes on")
            elif restore(self.cluster, begun):
                self.output.talk(f"{begun.topic}: a run was cut short; copying is switched on again")
        return [TopicIdPartition(begun.topic, begun.topic_id, number) for begun in left for number in begun.partitions]

    def _plan_toggles(self, settings: Mapping[str, Mapping[str, Setting]]) -> None:
        """Ask the cluster whether it would take the settings."""
        cluster_id = self.cluster.cluster_id()
        for topic in sorted({topic for topic, _ in self.freeings}):
            stuck = [each.stuck.partition for each in self._of(topic)]
            off = settings_while_off(settings[topic])
            numbers = tuple(each.partition for each in stuck)
            begun = Begun(cluster_id, topic, stuck[0].topic_id or "", numbers, own_values(settings[topic], off))
            try:
                self.cluster.change_settings(topic, off, validate_only=True)
                self.toggles[topic] = Toggle(begun, off)
            except ClusterRefusedError as refused:
                for each in self._of(topic):
                    each.needs_restart(refused.message)

    def _free(self, reader: MetadataReader, lineage: Lineage) -> ExitCode:
        host = self.request.host
        if host.apply:
            for each in self.toggles.values():
                self.records.put(each.begun)
        tiered = self._tier()
        plans = {(plan.partition.topic, plan.partition.partition): plan for plan in self._plan(reader, lineage)}
        readiness = {(each.partition.topic, each.partition.partition): each.readiness for each in tiered}
        for name, freeing in self.freeings.items():
            freeing.plan(readiness.get(name, ()), plans.get(name), applied=host.apply, replace=host.options.replace)
        if host.apply:
            publish_plans(self.metadata_topic, list(plans.values()), self.broker_id)
            still_stuck = self._toggle_and_watch(reader)
            for topic, each in self.toggles.items():
                if topic not in still_stuck:
                    self.records.drop(each.begun)
            if still_stuck:
                raise StillStuckError(
                    f"{', '.join(still_stuck)}: the copier goes on failing at what is published",
                    hint="restart the leader: its copier then goes on behind what was published",
                )
        return self._tell(tiered)

    def _tier(self) -> list[HostPartition]:
        """Tier the stuck partitions; what brokers have tiered is in remote storage, so nothing is tiered twice."""
        return [
            each
            for uri, log_dir in self.log_dirs.items()
            for each in self.request.host.partitions(log_dir, uri, named(log_dir, self.freeings))
        ]

    def _plan(self, reader: MetadataReader, lineage: Lineage) -> list[PartitionPlan]:
        host, stuck = self.request.host, [each.stuck.partition for each in self.freeings.values()]
        segments = [segment for partition in stuck for segment in finished_of(host.store, host.layout, partition)]
        return plan_publication(self.cluster, reader.read_to_end(), lineage, segments, stuck=stuck)

    def _toggle_and_watch(self, reader: MetadataReader) -> list[str]:
        """Switch copying off and on until the copiers have looked; returns topics of those that have not."""
        pending = [topic for topic in self.toggles if self._planned(topic)]
        leaders = [each.stuck.leader for topic in pending for each in self._planned(topic)]
        quiet = quiet_seconds(self.cluster, leaders)
        for _ in range(_ROUNDS):
            for topic in pending:
                settings = self.toggles[topic]
                toggle(self.cluster, settings.begun, settings.off, while_off=reader.read_to_end)
                self.output.talk(f"{topic}: copying was switched off and on again")
            planned = [each for topic in pending for each in self._planned(topic)]
            if planned:
                self.output.talk(f"waiting up to {quiet:.0f} s for the copiers to go on")
            found = watch(reader, [each.watched(reader.cache) for each in planned], quiet)
            for each in planned:
                each.conclude(found[each.stuck.partition])
            pending = [topic for topic in pending if self._planned(topic)]
        return pending

    def _of(self, topic: str) -> list[Freeing]:
        return [each for (name, _), each in self.freeings.items() if name == topic]

    def _planned(self, topic: str) -> list[Freeing]:
        return [each for each in self._of(topic) if each.end is End.PLANNED]

    def _tell(self, tiered: Sequence[HostPartition]) -> ExitCode:
        freeings: Sequence[Freeing] = list(self.freeings.values())
        copied = sum(row["state"] == "COPY_SEGMENT_FINISHED" for each in tiered for row in each.tiered)
        summary = {"run_id": self.request.run_id, "segments_tiered": copied}
        rows, errors = [each.as_row() for each in freeings], errors_of(tiered)
        found = findings_of(tiered)
        self.output.rows("unblock", rows, columns=COLUMNS, summary=summary, findings=found, errors=errors)
        tell_failures(self.output, tiered)
        for hint in sorted({each.hint for each in freeings if each.hint}):
            self.output.warn(hint)
        if not self.request.host.apply:
            self.output.talk("nothing was tiered, published or set: give --apply")
        failed = any(each.errors for each in tiered)
        return exit_code(tiered, apply=self.request.host.apply) if failed else exit_code_of(freeings)
