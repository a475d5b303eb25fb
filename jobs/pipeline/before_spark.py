"""Check a run's input before Spark starts, which takes seconds: its sources, its store, and the leaders.

The driver itself lists no more than the names of partition folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from tiersnap.jobs.pipeline.listing import NOTHING_TOLD, RecordsInput, ToldOfPartition
from tiersnap.jobs.pipeline.partition_sources import open_source
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.spark_start import check_spark
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_tasks import ask_copy_tasks, check_cluster
from tiersnap.remote_storage.cluster.records_task import ReadRecords, wanted_of_cluster, wanted_of_replicas
from tiersnap.remote_storage.cluster.topics import led_partitions
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC
from tiersnap.remote_storage.publish.broker_evidence import beside_brokers
from tiersnap.remote_storage.publish.tell_brokers import TellBrokers
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.probe import check_conditions, check_lists
from tiersnap.snapshot.errors import NotALogDirError, TiersnapError, TransientError, UnfinishedError, UsageError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.copy_task import CopyTasks
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import split_folder_name
from tiersnap.snapshot.log.log_start import refuse_other, unknown_partition
from tiersnap.snapshot.log.places import places_of
from tiersnap.snapshot.log.selection import internal_reason, matches_topic
from tiersnap.snapshot.replay.expiry import Scan
from tiersnap.snapshot.tables.spark_made_tables import schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[], "SparkSession"]


def started(spark: SparkSession | Session) -> SparkSession:
    """Return the session; start it first if a function is given. UsageError if its Spark is too old."""
    session = spark() if callable(spark) else spark
    check_spark(session.version)
    return session


@dataclass(frozen=True)
class RunInput:
    """The input of a run; `leaders` are rows of LEADERS, they and `copy_tasks` None where no cluster is asked."""

    found: Discovered
    store: ObjectStore
    leaders: pa.Table | None = None
    copy_tasks: CopyTasks | None = None
    told: Mapping[str, ToldOfPartition] = field(default_factory=dict)  # by folder name
    teller: TellBrokers | None = None  # publishes what is uploaded
    records: RecordsInput | None = None  # None if neither a cluster nor a source has records

    @property
    def topics(self) -> set[str]:
        """Names of the topics that the sources hold."""
        return {folder.rpartition("-")[0] for _, folder in self.found.folders}


def run_input(
    settings: RunSettings,
    store: ObjectStore | None,
    cluster: Cluster | None,
    publishes: Callable[[ObjectStore], TellBrokers | None] = lambda _: None,
) -> RunInput:
    """Return what a run starts from, or refuse the run; it writes nothing but a probe, and that with `apply` alone.

    Raises:
        SourceNotFoundError, NotALogDirError: a source is none.
        UsageError: the sources are of two clusters; a URI names no store; --log-start contradicts a checkpoint, or
            names a partition that no source has.
        WrongClusterError: a source is of another cluster than the one that is asked.
        TransientError: the store or the cluster does not answer.
        RemoteStorageError: the store refuses the credentials, or its bucket does not exist.
        ConditionsIgnoredError: the store ignores the conditions that claims rest on.
        WrongPlaceError: the running broker of a source on this host, or the cluster, reads another location.
    """
    found = discover(settings.sources, settings.topics, log_starts=settings.log_starts)
    refuse_two_clusters(found.owners)
    store = store or open_store(settings.remote, settings.stores, writes=settings.uploads)
    beside_brokers(settings.sources, open_location(store, settings.layout)).refuse_contradiction()
    (check_conditions if settings.uploads else check_lists)(store)
    told = {name: ToldOfPartition(offset) for name, offset in settings.log_starts.items()}
    replicas = wanted_of_replicas(found.metadata_replicas)
    records = None if replicas is None else RecordsInput(replicas, ReadRecords())
    given = RunInput(found, store, told=told, records=records)
    if cluster is not None:
        check_cluster(cluster, found.owners)
    given = replace(given, teller=publishes(store))
    if cluster is None:
        return given
    is_bounded = settings.replay.scan is Scan.WINDOW
    given = replace(given, told=told_of_cluster(cluster, found, told, is_bounded=is_bounded))
    names = {name for _, folder in found.folders if (name := split_folder_name(folder)) is not None}
    wanted = wanted_of_cluster(cluster, names)
    task = ReadRecords(cluster.bootstrap_server, cluster.properties)
    given = replace(given, records=None if wanted is None else RecordsInput(wanted, task))
    if settings.left_for is not None:
        given = replace(given, copy_tasks=ask_copy_tasks(cluster, names, found.owners).tasks)
    has_replicas = len({folder for _, folder in found.folders}) < len(found.folders)
    if settings.leaders or not has_replicas:
        return given
    return replace(given, leaders=leading_replicas(cluster, found.owners, given.topics))


@dataclass(frozen=True, slots=True)
class Discovered:
    """The log directories and partitions of the sources."""

    folders: list[tuple[str, str]]  # source and folder name of the partitions that are selected
    findings: list[Finding]  # of the sources as a whole
    collected: dict[str, str]  # by source with decodes only, the log directory of its segments, for people
    collected_log_dirs: dict[str, str]  # the same as a path on that host
    owners: dict[str, MetaProperties]  # of each source whose disk it is, where it says so
    # number and source of each replica of a partition of `__remote_log_metadata`
    metadata_replicas: list[tuple[int, str]] = field(default_factory=list)


def discover(
    sources: Iterable[str],
    topic: re.Pattern[str] | None,
    *,
    may_be_none: bool = False,
    log_starts: Mapping[str, int] = MappingProxyType({}),
) -> Discovered:
    """Return the partitions of the sources that `topic` selects; a source that is named twice is one.

    A broker's disks may hold no partition yet; but if a topic was asked for, one is there, unless `may_be_none`.

    Args:
        log_starts: offsets by <topic>-<partition>, as --log-start states them.

    Raises:
        SourceNotFoundError, NotALogDirError: a source is none, or no topic matches.
        UsageError, CorruptDataError: a collected folder cannot be read.
        UsageError: --log-start contradicts a checkpoint, or names a partition that no source has.
    """
    found = Discovered([], [], {}, {}, {})
    names = places_of(sources)
    for uri in names:
        source = open_source(uri)
        found.findings.extend(source.findings)
        if source.properties is not None:
            found.owners[uri] = source.properties
        if source.collected_from is not None:
            found.collected[uri] = source.collected_from
        if source.collected_log_dir is not None:
            found.collected_log_dirs[uri] = source.collected_log_dir
        for folder in source.folders:
            name = split_folder_name(folder)
            if name is not None and name[0] == METADATA_TOPIC and source.collected_from is None:
                found.metadata_replicas.append((name[1], uri))
            if name is not None and matches_topic(name[0], topic):
                found.folders.append((uri, folder))
                if folder in log_starts:
                    refuse_other(name, source.log_starts.get(name), log_starts[folder])
    for folder in log_starts.keys() - {folder for _, folder in found.folders}:
        raise unknown_partition(folder, log_starts[folder], names)
    if topic is not None and not found.folders and not may_be_none:
        raise NotALogDirError(
            f"{', '.join(names)}: no partition matches --topic",
            hint="--topic is a regular expression for the whole topic name, as in --topic 'orders.*'",
        )
    return found


def refuse_two_clusters(owners: Mapping[str, MetaProperties]) -> None:
    """Raise UsageError if two sources name different clusters; `owners` are by source."""
    first = next(iter(owners), None)
    for source, owner in owners.items():
        if first is not None and owner.cluster_id != owners[first].cluster_id:
            raise UsageError(
                f"the sources are of two clusters: {first} of {owners[first].cluster_id}, {source} of "
                f"{owner.cluster_id}",
                hint="run each cluster alone, with a --warehouse and a --remote prefix of its own",
            )


def told_of_cluster(
    cluster: Cluster, found: Discovered, told: Mapping[str, ToldOfPartition], *, is_bounded: bool
) -> dict[str, ToldOfPartition]:
    """Return what is told of partitions, by folder name, with what only the cluster may know of them.

    A bounded scan asks also for their last stable offsets.

    Raises:
        BrokerUnavailableError, ClusterRefusedError: the cluster does not say.
    """
    folders = {split_folder_name(folder) for _, folder in found.folders}
    wanted = {name for name in folders if name and not internal_reason(name[0])}
    topics = cluster.topics({topic for topic, _ in wanted})
    led = [(each.topic, each.partition) for each in led_partitions(topics, sorted(wanted))]
    # The high watermarks are asked for last: what is stable by then has its markers below them.
    stable = cluster.stable_offsets(led) if is_bounded else {}
    offsets = cluster.log_offsets(led)
    asked = {
        f"{name}-{number}": replace(
            told.get(f"{name}-{number}", NOTHING_TOLD),
            topic_id=topics[name].topic_id,
            leader_log_start=offsets[name, number][0],
            leader_stable=stable.get((name, number)),
            leader_high_watermark=offsets[name, number][1],
        )
        for name, number in led
    }
    return {**told, **asked}


LEADERS = schema_of(
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("leader", pa.int32()),  # a broker's id, -1 where the partition has no leader
    ("log_dirs", pa.list_(pa.string())),  # the sources that are that broker's
)


def leading_replicas(cluster: Cluster, owners: Mapping[str, MetaProperties], topics: Iterable[str]) -> pa.Table:
    """Return rows of LEADERS, one for each partition that the cluster has of `topics`; `owners` by source.

    Raises:
        UsageError, BrokerUnavailableError: a source is of another cluster; the cluster does not answer.
    """
    check_cluster(cluster, owners)
    log_dirs: dict[int, list[str]] = {}
    for log_dir, owner in owners.items():
        if owner.node_id is not None:
            log_dirs.setdefault(owner.node_id, []).append(log_dir)
    rows = [
        {"topic": topic.name, "partition": partition, "leader": leader, "log_dirs": log_dirs.get(leader, [])}
        for topic in cluster.topics(topics).values()
        for partition, leader in topic.leaders.items()
    ]
    return pa.Table.from_pylist(rows, schema=LEADERS)


def unled_error(name: str, replica_count: int, leader: int | None) -> TiersnapError:
    """Return the error about a partition with several replicas, none of which is known to lead.

    `leader` is a broker's id, -1 where the partition has none, None where the cluster does not know the partition.
    """
    which = f"which of its {replica_count} replicas counts nobody knows, and it is left alone"
    if leader is None:
        return UnfinishedError(
            f"{name}: the cluster has no such partition; {which}",
            hint="leave the topic out with --topic, or say with --leader LOGDIR which replica counts",
        )
    if leader < 0:
        return TransientError(
            f"{name}: it has no leader now; {which}",
            hint="run the same command again once it has one, or say with --leader LOGDIR which replica counts",
        )
    return UnfinishedError(
        f"{name}: broker {leader} leads it, and no source is a log directory of that broker; {which}",
        hint="give that log directory as --source, too, or say with --leader LOGDIR which replica counts",
    )
