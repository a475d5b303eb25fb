"""Ask a cluster which partitions brokers copy by themselves, and after which lag, before anything is uploaded.

A topic's configs show whether copying is enabled, and its lag (KIP-1241). No request shows that a copy task is stuck.
The records of its attempts raise a suspicion, and watching decides, as in `unblock` (see stuck).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import can_speak, open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.read_records import partitions_of, records_read
from tiersnap.remote_storage.cluster.stuck import find_stuck
from tiersnap.remote_storage.cluster.topic_checks import is_copied, value_of
from tiersnap.remote_storage.cluster.topics import TopicConfig, led_partitions, with_ids_of
from tiersnap.remote_storage.errors import MetadataTopicAbsentError, WrongClusterError
from tiersnap.remote_storage.metadata.topic_configs import AS_TOTAL, UNLIMITED
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.copy_task import ClusterAnswer, CopyLag, CopyTasks
from tiersnap.snapshot.log.log_dir import LogDir, read_properties
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.masking import masked_uri

_log = logging.getLogger(__name__)


def ask_copy_tasks(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    log_dirs: Iterable[str] = (),
    *,
    wants_records: bool = False,
    talk: Callable[[str], None] = lambda _: None,
) -> ClusterAnswer:
    """Return the state of the copy tasks of some partitions.

    If one may be stuck, its records are watched for up to three task intervals.

    Args:
        log_dirs: hold the leader epochs of partitions whose leaders cannot be asked.
        wants_records: also return the records, and read them for all partitions; else they are read only for
            partitions that brokers copy.
        talk: reports progress.

    Raises:
        BrokerUnavailableError, ClusterRefusedError: the cluster does not answer, or refuses.
    """
    topics = cluster.topics({topic for topic, _ in partitions})
    lags = {topic.topic_id: _lag_if_copied(cluster.settings(name)) for name, topic in topics.items()}
    copied = {name: topic for name, topic in topics.items() if lags[topic.topic_id] is not None}
    candidates = led_partitions(copied, partitions)
    try:
        metadata_topic = MetadataTopic.of(cluster)
    except MetadataTopicAbsentError:
        return ClusterAnswer(CopyTasks(lags))
    known = with_ids_of(topics, partitions)
    places = () if can_speak(cluster.properties) else tuple(log_dirs)
    with (
        metadata_topic.read(known if wants_records else list(candidates)) as reader,
        open_lineage(cluster, places) as lineage,
    ):
        stuck = find_stuck(cluster, reader, lineage, candidates, (), talk)
        records = records_read(metadata_topic, reader, known) if wants_records else None
    tasks = CopyTasks(lags, frozenset((str(each.partition.topic_id), each.partition.partition) for each in stuck))
    _log.info("brokers copy %d topics of %d, and %d copy tasks are stuck", len(copied), len(lags), len(stuck))
    return ClusterAnswer(tasks, records)


def _lag_if_copied(settings: Mapping[str, TopicConfig]) -> CopyLag | None:
    return copy_lag(settings) if is_copied(settings) else None


def ask_about_log_dirs(
    cluster: Cluster, log_dirs: Iterable[NamedLogDir], topic: re.Pattern[str] | None, *, talk: Callable[[str], None]
) -> ClusterAnswer:
    """Return the state of the copy tasks of the partitions in some log directories; see ask_copy_tasks.

    Args:
        topic: matches the names of the topics; None for all.

    Raises:
        WrongClusterError: a log directory is of another cluster.
    """
    named = list(log_dirs)
    opened = {each.source: each.log_dir for each in named}
    check_cluster_of(cluster, opened)
    return ask_copy_tasks(cluster, partitions_of(named, topic), opened, wants_records=True, talk=talk)


def copy_lag(settings: Mapping[str, TopicConfig]) -> CopyLag:
    """Return the copy lag of a topic by its configs; 0 before 4.4. Follows LogConfig.remoteCopyLagMs and -Bytes."""
    return CopyLag(_resolved(settings, "ms", "0"), _resolved(settings, "bytes", UNLIMITED))


def _resolved(settings: Mapping[str, TopicConfig], unit: str, default: str) -> int | None:
    """Return the lag; -1 stands for the local retention, which may stand for the total one. None if unlimited."""
    value = value_of(settings, f"remote.copy.lag.{unit}", default)
    if value == UNLIMITED:
        value = value_of(settings, f"local.retention.{unit}", AS_TOTAL)
        value = value_of(settings, f"retention.{unit}", UNLIMITED) if value == AS_TOTAL else value
    return None if int(value) < 0 else int(value)


def check_cluster_of(cluster: Cluster, opened: Mapping[str, LogDir]) -> None:
    """Refuse a cluster if the `meta.properties` of a log directory name another one; raises as `check_cluster`."""
    found = {uri: read_properties(each.filesystem, each.path) for uri, each in opened.items()}
    check_cluster(cluster, {uri: properties for uri, properties in found.items() if properties is not None})


def check_cluster(cluster: Cluster, owners: Mapping[str, MetaProperties]) -> None:
    """Refuse a cluster if a log directory is of another one.

    Args:
        owners: the content of `meta.properties`, by log directory.

    Raises:
        WrongClusterError: a log directory is of another cluster.
        BrokerUnavailableError: the cluster does not answer.
    """
    cluster_id = cluster.cluster_id()
    for log_dir, owner in owners.items():
        if owner.cluster_id != cluster_id:
            where, server = masked_uri(log_dir), cluster.bootstrap_server
            raise WrongClusterError(
                f"{where} is of the cluster {owner.cluster_id}, and {server} of {cluster_id}",
                hint="--bootstrap-server names a broker of the cluster that the sources come from",
            )
