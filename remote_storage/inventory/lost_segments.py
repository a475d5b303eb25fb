"""Find remote segments of ours that are lost: a claim tells of them, and their objects are not all there.

The claim is finished, or was until the segment was uploaded again and that was cut short: then it was lost before.

A server acknowledged an object and lost it, or somebody deleted it. A broker that deletes by retention takes the oldest
segments of the log first, with all of their objects. So a segment is lost, and was not deleted, if something of it is
left, or if an older part of the log is still there. Of others nobody can tell without asking the cluster. Where
it was asked, its records decide: a segment that they name is published, and no second one takes its place here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from tiersnap.remote_storage.inventory.complete import complete_in_other_layout
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import epochs_in_range
from tiersnap.remote_storage.stored.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.stored.claims import read_claim
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.leader_epochs import Interval, agreed_intervals


@dataclass(frozen=True, slots=True)
class LostSegment:
    """A remote segment of ours that is lost; offsets are those of the local segment, `end_offset` exclusive."""

    segment_id: str
    start_offset: int
    end_offset: int


def find_lost(
    store: ObjectStore,
    keys: ObjectKeys,
    found: RemoteInventory,
    segments: Iterable[Interval],
    lineage: LeaderEpochs,
    known_to_brokers: Container[str] | None = None,
    *,
    local: bool,
) -> Iterator[LostSegment]:
    """Find what `tier` uploads again although newer offsets of the log are there, where a broker goes on.

    A request for each such segment that is claimed and not whole, else none.

    Args:
        segments: base offset and exclusive end of the closed local segments from the log start on.
        lineage: (epoch, start offset) of the local log, ascending.
        known_to_brokers: ids of the segments that the cluster's records name, which are left alone; None where no
            cluster was asked.
        local: the layout is that of LocalTieredStorage.
    """
    whole = {copy.segment_id for copy in found.segments}
    whole_from = {copy.start_offset for copy in found.segments}
    left = {each.segment_id for each in found.leftovers}
    held = list(_in_log(found, lineage))
    first, reached = min((start for start, _ in held), default=0), max((end for _, end in held), default=0)
    for base, end in segments:
        if end > reached:
            break
        epochs = epochs_in_range(lineage, base, end)
        claimed = ClaimedSegment(found.partition, base, epochs[-1][0]) if epochs else None
        if claimed not in found.claimed or base in whole_from or end <= found.expired_to:
            continue
        claim = None
        with suppress(CorruptDataError):
            claim = read_claim(store, keys, claimed)
        ids = frozenset() if claim is None else _named(claim)
        if claim is None or ids & whole:
            continue
        is_lost = claim.finished is None or first < base or bool(ids & left)
        if known_to_brokers is not None:
            is_lost = not any(each in known_to_brokers for each in ids)
        if is_lost and not complete_in_other_layout(store, keys, found.partition, ids, local=local):
            yield LostSegment(min(ids), base, end)


def _named(claim: Claim) -> frozenset[str]:
    """Ids of the segment that a claim tells of; where nothing is finished, that of any of its attempts."""
    return frozenset(claim.segment_ids if claim.finished is None else (claim.finished,))


def _in_log(found: RemoteInventory, lineage: LeaderEpochs) -> Iterator[Interval]:
    """Offsets of the log that whole copies hold."""
    for copy in found.segments:
        yield from agreed_intervals(copy.leader_epochs, copy.end_offset, lineage)
