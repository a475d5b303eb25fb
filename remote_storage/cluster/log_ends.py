"""Check that the leader's log contains the offsets of segments, before brokers read the segments.

A log that lost an unclean election, or a clone of a log, may end above the leader's log. If segments of such a log were
published, consumers would read them. The leader would later append different records at the same offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.errors import BrokerUnavailableError, DivergedLogError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition


def leader_offsets(
    cluster: Cluster, leaders: Mapping[TopicIdPartition, int]
) -> dict[TopicIdPartition, tuple[int, int]]:
    """Return (log start offset, log end offset) of each partition that has a leader. The end is exclusive.

    In `leaders`, -1 means that the partition has no leader.
    """
    led = {(each.topic, each.partition): each for each, leader in leaders.items() if leader >= 0}
    return {led[at]: offsets for at, offsets in cluster.log_offsets(led).items()}


def check_has_leader(partition: TopicIdPartition, leader: int) -> None:
    """Raise BrokerUnavailableError if `leader` is -1: the partition has no leader."""
    if leader < 0:
        raise BrokerUnavailableError(f"{partition} has no leader now", hint="run the same command again")


def check_log_end(partition: TopicIdPartition, end_offset: int, log_end: int) -> None:
    """Raise DivergedLogError if segments end above the leader's log.

    Args:
        end_offset: exclusive end of the segments.
        log_end: the leader's high watermark (exclusive).
    """
    if end_offset > log_end:
        raise DivergedLogError(
            f"{partition}: its segments end at offset {end_offset}, above the end of the leader's log at {log_end}",
            hint="run the same command again once all in-sync followers have these records. If the leader lacks the "
            "records, tier from the leader's log directory",
        )
