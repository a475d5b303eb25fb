"""Checks of a run's sources, object store and cluster. They run before Spark starts, because the start takes seconds.

The driver lists only the names of the partition folders. Executors list the files in the folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from tiersnap.jobs.pipeline.listing import NOTHING_STATED, RecordsInput, StatedFacts
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
from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
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
from tiersnap.snapshot.tables.schema_parts import schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[], "SparkSession"]


def started(spark: SparkSession | Session) -> SparkSession:
    """Return the session. If `spark` is a function, call it to get the session.

    Raises:
        UsageError: the Spark version is too old.
    """
    session = spark() if callable(spark) else spark
    check_spark(session.version)
    return session


@dataclass(frozen=True)
class RunInput:
    """The checked input of a run."""

    found: Discovered
    store: ObjectStore
    leaders: pa.Table | None = None  # rows of LEADERS; None if the run does not need the cluster to choose replicas
    copy_tasks: CopyTasks | None = None  # None without a cluster, or if the settings do not use copy tasks
    told: Mapping[str, StatedFacts] = field(default_factory=dict)  # by folder name
    publisher: PublishUploads | None = None  # publishes uploaded segments; None to publish nothing
    cluster: Cluster | None = None  # None for a run without a cluster
    records: RecordsInput | None = None  # None if neither a cluster nor a source has `__remote_log_metadata`

    @property
    def cluster_of_uploads(self) -> Cluster | None:
        """Return the cluster whose brokers will read the uploads; None if it is unknown."""
        if self.publisher is not None:
            return self.publisher.place.cluster
        return self.cluster

    @property
    def topics(self) -> set[str]:
        """Return the topic names of the selected partition folders."""
        return {folder.rpartition("-")[0] for _, folder in self.found.folders}


def run_input(
    settings: RunSettings,
    store: ObjectStore | None,
    cluster: Cluster | None,
    publishes: Callable[[ObjectStore], PublishUploads | None] = lambda _: None,
) -> RunInput:
    """Return the checked input of a run.

    If the run uploads, the check writes a probe object to the store. It writes nothing else.

    Args:
        settings: the run's settings.
        store: object store of the remote location; None to open the store that the settings name.
        cluster: None for a run without a cluster.
        publishes: returns the publisher for the store; None to publish nothing.

    Raises:
        SourceNotFoundError, NotALogDirError: a source does not exist, or is no log directory.
        UsageError: the sources belong to two clusters; a URI names no store; --log-start contradicts a checkpoint, or
            names a partition that no source has.
        WrongClusterError: a source belongs to another cluster than `cluster`.
        TransientError: the store or the cluster does not answer.
        RemoteStorageError: the store refuses the credentials, or the bucket does not exist.
        ConditionsIgnoredError: the store ignores conditional writes, which claims need.
        WrongPlaceError: the cluster, or the running broker of a source on this host, reads another location.
    """
    found = discover(settings.sources, settings.topics, log_starts=settings.log_starts)
    refuse_two_clusters(found.owners)
    store = store or open_store(settings.remote, settings.stores, writes=settings.uploads)
    beside_brokers(settings.sources, open_location(store, settings.layout)).refuse_contradiction()
    (check_conditions if settings.uploads else check_lists)(store)
    told = {name: StatedFacts(offset) for name, offset in settings.log_starts.items()}
    replicas = wanted_of_replicas(found.metadata_replicas)
    records = None if replicas is None else RecordsInput(replicas, ReadRecords())
    given = RunInput(found, store, told=told, records=records)
    if cluster is not None:
        check_cluster(cluster, found.owners)
    given = replace(given, publisher=publishes(store), cluster=cluster)
    if cluster is None:
        return given
    is_bounded = settings.replay.scan is Scan.WINDOW
    given = replace(given, told=facts_from_cluster(cluster, found, told, is_bounded=is_bounded))
    names = set(filter(None, map(split_folder_name, (folder for _, folder in found.folders))))
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

    folders: list[tuple[str, str]]  # source URI and folder name of each selected partition
    findings: list[Finding]  # findings about log directories, not about one partition
    collected: dict[str, str]  # source URI of a collected folder -> name of the original log directory, to print
    collected_log_dirs: dict[str, str]  # source URI of a collected folder -> path of that directory on its host
    owners: dict[str, MetaProperties]  # source URI -> its meta.properties; absent if the source has none
    # partition number and source URI of each local replica of `__remote_log_metadata`
    metadata_replicas: list[tuple[int, str]] = field(default_factory=list)


def discover(
    sources: Iterable[str],
    topic: re.Pattern[str] | None,
    *,
    may_be_none: bool = False,
    log_starts: Mapping[str, int] = MappingProxyType({}),
) -> Discovered:
    """Return the log directories of the sources, and their partitions that `topic` selects.

    Args:
        sources: URIs; duplicates count once.
        topic: matches complete topic names; None for all topics.
        may_be_none: raise no error if no partition matches `topic`. Without `topic`, sources without partitions never
            raise an error.
        log_starts: the offsets of --log-start, by TOPIC-PARTITION.

    Raises:
        SourceNotFoundError: a source does not exist.
        NotALogDirError: a source is no log directory, or no partition matches `topic`.
        CorruptDataError: the file `collected.json` of a collected folder is damaged.
        UsageError: a newer tiersnap wrote a collected folder; --log-start contradicts a checkpoint, or names a
            partition that no source has.
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
            f"{', '.join(names)}: --topic matches no partition",
            hint="--topic takes a regular expression that matches complete topic names, such as 'orders.*'",
        )
    return found


def refuse_two_clusters(owners: Mapping[str, MetaProperties]) -> None:
    """Raise UsageError if the meta.properties of two sources have different cluster ids.

    Args:
        owners: meta.properties by source URI.
    """
    first = next(iter(owners), None)
    for source, owner in owners.items():
        if first is not None and owner.cluster_id != owners[first].cluster_id:
            raise UsageError(
                f"the sources belong to two clusters: {first} to {owners[first].cluster_id}, {source} to "
                f"{owner.cluster_id}",
                hint="run one command for each cluster, each with its own --warehouse and --remote",
            )


def facts_from_cluster(
    cluster: Cluster, found: Discovered, told: Mapping[str, StatedFacts], *, is_bounded: bool
) -> dict[str, StatedFacts]:
    """Add the topic ids and offsets that the cluster reports to the facts in `told`. Return the facts by folder name.

    Args:
        cluster: asked for the topic ids and the leaders' offsets.
        found: the partitions; internal topics are skipped.
        told: facts from the command line, by folder name.
        is_bounded: whether the run has a scan window. If so, return the last stable offsets too.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    folders = {split_folder_name(folder) for _, folder in found.folders}
    wanted = {name for name in folders if name and not internal_reason(name[0])}
    topics = cluster.topics({topic for topic, _ in wanted})
    led = [(each.topic, each.partition) for each in led_partitions(topics, sorted(wanted))]
    # Ask for the high watermarks last, so that each marker that raised the last stable offset is below them.
    stable = cluster.stable_offsets(led) if is_bounded else {}
    offsets = cluster.log_offsets(led)
    answers = dict(told)
    for name, number in led:
        log_start, high_watermark = offsets[name, number]
        answers[f"{name}-{number}"] = replace(
            told.get(f"{name}-{number}", NOTHING_STATED),
            topic_id=topics[name].topic_id,
            leader_log_start=log_start,
            leader_stable=stable.get((name, number)),
            leader_high_watermark=high_watermark,
        )
    return answers


LEADERS = schema_of(
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("leader", pa.int32()),  # broker id; -1 if the partition has no leader
    ("log_dirs", pa.list_(pa.string())),  # the sources whose meta.properties name that broker
)


def leading_replicas(cluster: Cluster, owners: Mapping[str, MetaProperties], topics: Iterable[str]) -> pa.Table:
    """Return the leader of each partition of `topics` in the cluster (schema LEADERS).

    Args:
        cluster: asked for the leaders.
        owners: meta.properties by source URI.
        topics: topic names. Topics that the cluster does not have get no rows.

    Raises:
        UsageError: a source belongs to another cluster.
        BrokerUnavailableError: the cluster does not answer.
    """
    check_cluster(cluster, owners)
    log_dirs: dict[int, list[str]] = {}
    for log_dir, owner in owners.items():
        if owner.node_id is not None:
            log_dirs.setdefault(owner.node_id, []).append(log_dir)
    rows: list[dict[str, object]] = []
    for topic in cluster.topics(topics).values():
        for partition, leader in topic.leaders.items():
            of_leader = log_dirs.get(leader, [])
            rows.append({"topic": topic.name, "partition": partition, "leader": leader, "log_dirs": of_leader})
    return pa.Table.from_pylist(rows, schema=LEADERS)


def unled_error(name: str, replica_count: int, leader: int | None) -> TiersnapError:
    """Return the error for a skipped partition: it is unknown which of its replicas belongs to the leader.

    Args:
        name: TOPIC-PARTITION.
        replica_count: number of replicas in the sources.
        leader: broker id; -1 if the partition has no leader, None if the cluster has no such partition.
    """
    which = (
        f"the sources have {replica_count} replicas of the partition, the leader's replica is unknown, and the run "
        "skips the partition"
    )
    if leader is None:
        return UnfinishedError(
            f"{name}: the cluster does not have the partition; {which}",
            hint="choose the replica with --leader LOGDIR, or exclude the topic with --topic REGEX",
        )
    if leader < 0:
        return TransientError(
            f"{name}: the partition has no leader now; {which}",
            hint="run the same command again later, or choose the replica with --leader LOGDIR",
        )
    return UnfinishedError(
        f"{name}: broker {leader} is the leader, and no source is a log directory of that broker; {which}",
        hint="add that broker's log directory with --source LOGDIR, or choose the replica with --leader LOGDIR",
    )
