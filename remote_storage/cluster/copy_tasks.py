"""Before an upload, ask a cluster which partitions brokers copy, and which copy lag applies.

The configs of a topic show whether copying is enabled, and the copy lag (KIP-1241). No request shows that a copy task
is stuck. Records of copy attempts only raise a suspicion. tiersnap then watches further records to confirm it (see
`stuck`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import dirs_for_epochs, open_lineage
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

    If a copy task may be stuck, watch its records for up to three task intervals.

    Args:
        log_dirs: log directories of leaders. tiersnap reads leader epochs there if this client cannot ask leaders.
        wants_records: whether to return records. If True, the records of all partitions are read; if False, only those
            of partitions that brokers copy.
        talk: reports progress.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
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
    records = None
    to_read = list(candidates)
    if wants_records:
        to_read = known
    with metadata_topic.read(to_read) as reader, open_lineage(cluster, dirs_for_epochs(cluster, log_dirs)) as lineage:
        stuck = find_stuck(cluster, reader, lineage, candidates, (), talk)
        if wants_records:
            records = records_read(metadata_topic, reader, known)
    tasks = CopyTasks(lags, frozenset((str(each.partition.topic_id), each.partition.partition) for each in stuck))
    _log.info("copying is enabled for %d of %d topics; %d copy tasks are stuck", len(copied), len(lags), len(stuck))
    return ClusterAnswer(tasks, records)


def _lag_if_copied(settings: Mapping[str, TopicConfig]) -> CopyLag | None:
    if not is_copied(settings):
        return None
    return copy_lag(settings)


def ask_about_log_dirs(
    cluster: Cluster, log_dirs: Iterable[NamedLogDir], topic: re.Pattern[str] | None, *, talk: Callable[[str], None]
) -> ClusterAnswer:
    """Return the state of the copy tasks of the partitions in some log directories. See `ask_copy_tasks`.

    Args:
        topic: matches the names of the topics; None for all.

    Raises:
        WrongClusterError: a log directory belongs to another cluster.
    """
    named = list(log_dirs)
    opened = {each.source: each.log_dir for each in named}
    check_cluster_of(cluster, opened)
    return ask_copy_tasks(cluster, partitions_of(named, topic), opened, wants_records=True, talk=talk)


def copy_lag(settings: Mapping[str, TopicConfig]) -> CopyLag:
    """Return the copy lag from a topic's configs. Before Kafka 4.4, the lag is 0.

    Follows LogConfig.remoteCopyLagMs and LogConfig.remoteCopyLagBytes.
    """
    return CopyLag(_resolved(settings, "ms", "0"), _resolved(settings, "bytes", UNLIMITED))


def _resolved(settings: Mapping[str, TopicConfig], unit: str, default: str) -> int | None:
    """Return the lag in `unit`, or None if it is unlimited.

    A copy lag of -1 means the local retention. A local retention of -2 means the total retention.
    """
    value = value_of(settings, f"remote.copy.lag.{unit}", default)
    if value == UNLIMITED:
        value = value_of(settings, f"local.retention.{unit}", AS_TOTAL)
        if value == AS_TOTAL:
            value = value_of(settings, f"retention.{unit}", UNLIMITED)
    if int(value) < 0:
        return None
    return int(value)


def check_cluster_of(cluster: Cluster, opened: Mapping[str, LogDir]) -> None:
    """Check that the `meta.properties` of all log directories name this cluster.

    The errors are those of `check_cluster`.
    """
    owners = {}
    for uri, each in opened.items():
        properties = read_properties(each.filesystem, each.path)
        if properties is not None:
            owners[uri] = properties
    check_cluster(cluster, owners)


def check_cluster(cluster: Cluster, owners: Mapping[str, MetaProperties]) -> None:
    """Check that all log directories belong to this cluster.

    Args:
        owners: the content of `meta.properties`, by log directory.

    Raises:
        WrongClusterError: a log directory belongs to another cluster.
        BrokerUnavailableError: the cluster does not answer.
    """
    cluster_id = cluster.cluster_id()
    for log_dir, owner in owners.items():
        if owner.cluster_id != cluster_id:
            where, server = masked_uri(log_dir), cluster.bootstrap_server
            raise WrongClusterError(
                f"{where} belongs to the cluster {owner.cluster_id}, but {server} belongs to {cluster_id}",
                hint="give as --bootstrap-server a broker of the cluster to which the log directories belong",
            )
