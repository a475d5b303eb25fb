"""Whether somebody is copying segments of a partition: beside that nothing of it is deleted.

A claim that is older than any upload may last is nobody's, nor is one whose process on this host is gone. A copy that
no claim names is a broker's, under way for as long as its manifest may take.
"""

from __future__ import annotations

from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor

from tiersnap.remote_storage.inventory.partition_objects import PartitionObjects
from tiersnap.remote_storage.inventory.remote_inventory import COPY_GRACE_MS, REQUESTS_AT_ONCE
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.stored.claim import ClaimedSegment
from tiersnap.remote_storage.stored.claims import STALE_AFTER_MS, read_claim
from tiersnap.remote_storage.stored.process import is_gone
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import TransientError


class PartitionInUseError(TransientError):
    """Somebody is copying segments of the partition."""


def in_use(store: ObjectStore, keys: ObjectKeys, stored: PartitionObjects, begun: Container[str], now: int) -> str:
    """Who may be copying segments of the partition, in words for a person; "" if nobody.

    Args:
        begun: segment ids that `expire` has begun to delete, and that look like a copy under way.
        now: ms, by the store's clock.
    """
    young = [each for each, info in stored.claims.items() if now - info.modified <= STALE_AFTER_MS]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for segment, holder in zip(young, pool.map(lambda each: _live_holder(store, keys, each), young), strict=True):
            if holder:
                return f"{segment} is claimed by {holder}, which may be at work"
    for each in stored.attempts:
        if each.segment_id not in begun and not each.is_visible and now - each.modified <= COPY_GRACE_MS:
            return f"the segment {each.segment_id} at {each.start_offset} is being copied"
    return ""


def _live_holder(store: ObjectStore, keys: ObjectKeys, segment: ClaimedSegment) -> str:
    claim = read_claim(store, keys, segment)
    if claim is None or claim.finished is not None or claim.holder.ended or is_gone(claim.holder.process):
        return ""
    return f"run {claim.holder.run_id} (host {claim.holder.process.host}, process {claim.holder.process.pid})"
