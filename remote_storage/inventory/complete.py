"""Find a partition's complete remote segments, in either layout; claims are ignored, and shared by both layouts."""

from __future__ import annotations

from collections.abc import Collection

from tiersnap.remote_storage.errors import OtherLayoutError
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment, read_segment
from tiersnap.remote_storage.inventory.segment_objects import list_segments
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stored.claim import Claim
from tiersnap.remote_storage.stores.object_store import ObjectStore


def complete_segments(
    store: ObjectStore, partition: TopicIdPartition, segment_ids: Collection[str], *, local: bool
) -> frozenset[str]:
    """Those of `segment_ids` whose objects are all there; one listing, and a look into each that seems to be.

    Args:
        local: whether they lie as LocalTieredStorage lays them; else as Aiven's plugin does.
    """
    return frozenset(
        each.segment_id
        for each in list_segments(store, partition, local=local)
        if each.segment_id in segment_ids and isinstance(read_segment(store, each), RemoteSegment)
    )


def complete_in_other_layout(
    store: ObjectStore, partition: TopicIdPartition, segment_ids: Collection[str], *, local: bool
) -> frozenset[str]:
    """Those of these attempts whose copy lies whole in the other layout; no request where there are none, else a
    listing and what `read_copy` asks.

    Args:
        local: the layout that is asked for, and whose copies are not these: LocalTieredStorage's, or Aiven's.
    """
    if not segment_ids:
        return frozenset()
    return complete_segments(store, partition, segment_ids, local=not local)


def check_layout(store: ObjectStore, claimed: Claim, name: str, *, local: bool) -> None:
    """See that the copy that a claim says is finished does not lie in the other layout.

    Args:
        name: of the layout that is asked for.

    Raises:
        OtherLayoutError: it does, whole.
    """
    finished = {claimed.finished} if claimed.finished is not None else set()
    if complete_in_other_layout(store, claimed.segment.partition, finished, local=local):
        (other,) = LAYOUTS.keys() - {name}
        raise OtherLayoutError(
            f"its copy is here in the layout {other}, and this one is {name}: one place has one layout",
            hint=f"--layout {other}; or for {name} another --remote, where nothing is tiered yet",
        )
