"""The claims that a store holds of a partition, read one by one."""

from __future__ import annotations

from collections.abc import Iterator

from tiersnap.remote_storage.locks.claim import HeldClaim
from tiersnap.remote_storage.locks.claim_protocol import claimed_segments, read_claim_and_age
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore


def list_claims(store: ObjectStore, partition: TopicIdPartition) -> Iterator[HeldClaim]:
    """All claims of a partition, by base offset; a request each.

    Raises:
        CorruptDataError: one of them is no claim; who wants the others reads `claimed_segments` one by one.
    """
    for segment in claimed_segments(store, partition):
        if (found := read_claim_and_age(store, segment)) is not None:
            yield found[0]
