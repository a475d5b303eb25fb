"""List remote storage for a log directory: replay.remote_listing.RemoteLook over a store."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tiersnap.remote_storage.inventory.encryption import EncryptionLook
from tiersnap.remote_storage.inventory.known_manifests import KnownManifests
from tiersnap.remote_storage.inventory.lost_segments import find_lost
from tiersnap.remote_storage.inventory.remote_inventory import leftovers_of, list_remote_partition
from tiersnap.remote_storage.inventory.remote_log import name_of
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.inventory.starts import find_start, living_producers, read_start, state_at
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.remote_listing import ClaimedStart, ListedCopy, RemoteListing
from tiersnap.snapshot.replay.remote_state import RemoteState


@dataclass(frozen=True)
class Observe:
    """Looks at one place of remote storage.

    Attributes:
        refuses_plaintext: looks whether the plugin encrypts what lies there, too.
        known_to_brokers: ids of the remote segments that the cluster's records name, by topic id; None where none was
            asked.
        unbelieved: ids of segments whose snapshots start nothing.
    """

    store: ObjectStore
    layout: Layout
    refuses_plaintext: bool = False
    known_to_brokers: Mapping[str, Container[str]] | None = None
    unbelieved: Collection[str] = ()
    _known: dict[TopicIdPartition, KnownManifests] = field(default_factory=dict, compare=False, repr=False)

    def known(self, partition: TopicIdPartition) -> KnownManifests:
        """Return what was read of a partition's manifests; that of others is forgotten."""
        known = self._known.get(partition)
        if known is None:
            known = KnownManifests(self.store, ObjectKeys(), partition)
            self._known.clear()
            self._known[partition] = known
        return known

    @cached_property
    def _encryption(self) -> EncryptionLook:
        return EncryptionLook(self.store)

    def __call__(self, partition: Partition) -> RemoteListing:
        keys, local = ObjectKeys(), self.layout.is_local
        local_start = partition.segments[0].base_offset
        name = name_of(partition)
        found = list_remote_partition(
            self.store, keys, name, local=local, local_start=local_start, known=self.known(name)
        )
        closed = ((each.base_offset, each.next_base_offset) for each in partition.segments)
        segments = [(base, end) for base, end in closed if end is not None]
        known = (self.known_to_brokers or {}).get(partition.topic_id or "")
        lost = find_lost(self.store, keys, found, segments, partition.leader_epochs or (), known, local=local)
        # Of ours that nobody finished, that another attempt has the claim of, or that is lost: it is not done, and no
        # copier is at it; who tiers it finishes it or makes it again.
        copies = [_listed(each, is_done=not each.is_unfinished) for each in found.segments]
        copies += [_listed(each, is_done=False) for each in found.uncounted]
        copies += [ListedCopy(each.segment_id, each.start_offset, each.end_offset, is_ours=True) for each in lost]
        shown = self._encryption.of_found(found) if segments and self.refuses_plaintext and not local else None
        copies += [
            ListedCopy(
                left.segment_id, left.start_offset, left.start_offset + 1, written_at=left.written_at, is_brokers=True
            )
            for left in found.in_flight()
        ]
        return RemoteListing(
            tuple(copies),
            found.expired_to or None,
            None if shown is None else shown.encryption,
            None if shown is None else shown.manifest or None,
            len(leftovers_of(found)),
        )

    def find_start(self, partition: Partition, copies: Iterable[ListedCopy]) -> ClaimedStart | None:
        return find_start(self.store, name_of(partition), copies)

    def read_start(self, partition: Partition, start: ClaimedStart) -> bytes:
        return read_start(self.store, self.layout, name_of(partition), start)

    def living_producers(
        self, partition: Partition, offset: int, *, now: int, producer_expiration: int | None
    ) -> np.ndarray:
        expiration = producer_expiration
        return living_producers(self.store, self.layout, partition, offset, now=now, producer_expiration=expiration)

    def state_at(self, partition: Partition, offset: int, *, now: int, producer_expiration: int | None) -> RemoteState:
        expiration, left_out = producer_expiration, self.unbelieved
        return state_at(
            self.store, self.layout, partition, offset, now=now, producer_expiration=expiration, unbelieved=left_out
        )


def _listed(segment: RemoteSegment, *, is_done: bool) -> ListedCopy:
    return ListedCopy(
        segment.segment_id,
        segment.start_offset,
        segment.end_offset,
        segment.metadata.segment_size,
        segment.metadata.max_timestamp,
        segment.leader_epochs,
        is_done,
        segment.written_at,
        is_ours=not is_done,
        is_brokers=segment.is_brokers,
    )
