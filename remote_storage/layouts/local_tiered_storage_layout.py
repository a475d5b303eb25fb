"""One file for each part of a segment, as Kafka's LocalTieredStorage stores them in a directory.

    kafka-tiered-storage/<topic>-<partition>-<topic id>/<20 digits>-<segment id>
        .log .index .timeindex .txnindex (if there is one) .leader_epoch_checkpoint .snapshot

The content of the files is unchanged, and there is no manifest. The snapshot is written last. A reader needs all files
except `.txnindex`. The store's root is the plugin's `dir`. Follows
org.apache.kafka.server.log.remote.storage.LocalTieredStorage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import IndexType, Layout, PlannedObject, StoredState
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import INDEXES_BYTES

KIND_OF_INDEX = {
    IndexType.OFFSET: KeyKind.LOCAL_OFFSET_INDEX,
    IndexType.TIMESTAMP: KeyKind.LOCAL_TIME_INDEX,
    IndexType.PRODUCER_SNAPSHOT: KeyKind.LOCAL_SNAPSHOT,
    IndexType.LEADER_EPOCH: KeyKind.LOCAL_LEADER_EPOCHS,
    IndexType.TRANSACTION: KeyKind.LOCAL_TRANSACTION_INDEX,
}


@dataclass(frozen=True, slots=True)
class LocalTieredStorageLayout(Layout):
    """The files that a broker with LocalTieredStorage reads."""

    name = "local-tiered-storage"
    is_local = True
    kinds = (
        KeyKind.LOCAL_LOG,
        KeyKind.LOCAL_OFFSET_INDEX,
        KeyKind.LOCAL_TIME_INDEX,
        KeyKind.LOCAL_TRANSACTION_INDEX,
        KeyKind.LOCAL_LEADER_EPOCHS,
        KeyKind.LOCAL_SNAPSHOT,
    )

    def plan(self, indexes: Mapping[IndexType, bytes], metadata: RemoteLogSegmentMetadata) -> tuple[PlannedObject, ...]:
        contents = {KIND_OF_INDEX[index]: content for index, content in indexes.items()}
        return tuple(
            PlannedObject(keys.segment(kind, metadata), contents[kind]) for kind in self.kinds if kind in contents
        )

    def inspect(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata) -> StoredState:
        """See Layout. A segment is complete if all mandatory files exist and its log has the expected size."""
        sizes = {found.key: found.size for found in store.list(self.stem(metadata))}
        if not sizes:
            return StoredState.ABSENT
        mandatory = set(self.object_keys(metadata)) - {keys.segment(KeyKind.LOCAL_TRANSACTION_INDEX, metadata)}
        if mandatory <= sizes.keys() and sizes[self.log_key(metadata)] == metadata.segment_size:
            return StoredState.COMPLETE
        return StoredState.PARTIAL

    def fetch_index(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata, index: IndexType) -> bytes | None:
        try:
            return store.get(keys.segment(KIND_OF_INDEX[index], metadata), limit=INDEXES_BYTES)
        except ObjectNotFoundError:
            if index is IndexType.TRANSACTION and self.inspect(store, metadata) is StoredState.COMPLETE:
                return None
            raise
