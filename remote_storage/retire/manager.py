"""Who deletes the remote segments of a partition: brokers, or nobody.

Brokers do as long as the cluster has the topic under this id, or a record of one of its segments that is not
DELETE_SEGMENT_FINISHED. That nobody does is proven where the cluster that `cluster.json` names has deleted all that it
knew, or is the user's word (`--unmanaged`), which never counts against what a cluster says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition


class Manager(StrEnum):
    """Whose the deletion is."""

    NOBODY = "NOBODY"
    BROKERS = "BROKERS"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Managed:
    """The manager, and how that is known."""

    manager: Manager
    reason: str


def manager_of(
    known: KnownPartition | None,
    cluster_id: str | None,
    segment_ids: Iterable[str],
    *,
    unblocking: bool,
    unmanaged: bool,
) -> Managed:
    """Who manages a partition.

    Args:
        known: what the cluster that was asked says of it; None where none was asked.
        cluster_id: what `cluster.json` says.
        segment_ids: of all its objects in the store.
        unblocking: `unblock` has something to put back in the topic's settings.
        unmanaged: the user says that no broker manages it.
    """
    if unblocking:
        return Managed(Manager.BROKERS, "tiersnap unblock has begun with its topic, which a broker has: end it first")
    if known is None:
        reason = "no cluster was asked whether a broker manages it: --bootstrap-server, or --unmanaged where none is"
        return Managed(Manager.NOBODY, "--unmanaged") if unmanaged else Managed(Manager.UNKNOWN, reason)
    if known.is_live:
        return Managed(Manager.BROKERS, "the cluster has the topic: its brokers delete by retention.ms and .bytes")
    states = {each.state for each in known.records.values()}
    if states - {SegmentState.DELETE_SEGMENT_FINISHED} or not known.doubtful.isdisjoint(segment_ids):
        return Managed(Manager.BROKERS, "the cluster has records of its segments, and has not deleted them")
    refusal = known.refusal(cluster_id)
    if not refusal:
        return Managed(Manager.NOBODY, "its cluster has deleted the topic and all that it knew of its segments")
    return Managed(Manager.NOBODY, "--unmanaged") if unmanaged else Managed(Manager.UNKNOWN, refusal)
