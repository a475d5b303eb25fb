"""Find the copy tasks that fail again and again.

The records of `__remote_log_metadata` show which copy tasks may be failing. tiersnap then watches these tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_progress import has_unended
from tiersnap.remote_storage.cluster.hung_copies import HUNG_AFTER_MS
from tiersnap.remote_storage.cluster.leader_epochs import dirs_for_epochs, open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.stuck import StuckPartition, find_stuck
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition


def find_failing(
    cluster: Cluster,
    records: MetadataCache,
    leaders: Mapping[TopicIdPartition, int],
    log_dirs: Sequence[str],
    now: int,
    talk: Callable[[str], None],
) -> list[StuckPartition]:
    """Return the partitions whose copy task fails.

    If the records raise a suspicion, watch the suspected partitions for up to three task intervals.

    Args:
        records: all records of `__remote_log_metadata`.
        leaders: leaders of the partitions that brokers copy.
        log_dirs: log directories of leaders. tiersnap reads leader epochs there if this client cannot ask leaders.
        now: ms.
        talk: reports progress.
    """
    suspects = {each: leader for each, leader in leaders.items() if _may_fail(records, each, now)}
    if not suspects:
        return []
    files = dirs_for_epochs(cluster, log_dirs)
    with MetadataTopic.of(cluster).read(suspects) as reader, open_lineage(cluster, files) as lineage:
        return find_stuck(cluster, reader, lineage, suspects, (), talk)


def _may_fail(records: MetadataCache, partition: TopicIdPartition, now: int) -> bool:
    """Return whether a copy task may be failing: it has several unfinished attempts, and the newest is recent.

    Records of old attempts stay in `__remote_log_metadata`. But a failing task begins a new attempt within
    HUNG_AFTER_MS.
    """
    if not has_unended(records, partition):
        return False
    begun = records.in_state(partition, SegmentState.COPY_SEGMENT_STARTED)
    return now - max(each.event_timestamp for each in begun) <= HUNG_AFTER_MS
