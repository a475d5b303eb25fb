"""Three objects per segment, as the Aiven plugin writes them uncompressed (segment format `kafka`).

    .log            the segment file, unchanged
    .indexes        offset index, time index, producer snapshot, leader epochs, and the transaction index if there is
                    one, one after the other without a header; a part may be empty
    .rsm-manifest   see rsm_manifest; it is written last, so an existing manifest means that the segment is complete

Follows io.aiven.kafka.tieredstorage.KafkaRemoteStorageManager. The plugin writes no object for an empty stream. This
case cannot occur in tiersnap: its segment files are not empty, and a producer snapshot has at least 10 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.errors import EncryptedSegmentError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys, rsm_manifest
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import IndexType, Layout, PlannedObject, StoredState
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import INDEXES_BYTES, MANIFEST_BYTES, read_decoded
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.units import count_of

_CHUNK_SIZE = 4 << 20  # bytes


@dataclass(frozen=True, slots=True)
class AivenLayout(Layout):
    """The objects that a broker with the Aiven plugin reads."""

    name = "aiven"
    is_local = False
    kinds = (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)

    def plan(self, indexes: Mapping[IndexType, bytes], metadata: RemoteLogSegmentMetadata) -> tuple[PlannedObject, ...]:
        content, sizes = b"", {}
        for index in IndexType:
            if index in indexes:
                content += indexes[index]
                sizes[index] = len(indexes[index])
        manifest = rsm_manifest.encode(metadata, sizes, chunk_size=_CHUNK_SIZE)
        _, indexes_key, manifest_key = self.object_keys(metadata)
        return (PlannedObject(indexes_key, content), PlannedObject(manifest_key, manifest))

    def inspect(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata) -> StoredState:
        """See Layout. A segment is complete if its manifest is valid and agrees with the sizes of the other objects."""
        sizes = {found.key: found.size for found in store.list(self.stem(metadata))}
        if not sizes:
            return StoredState.ABSENT
        log, indexes, manifest_key = self.object_keys(metadata)
        if not 0 < sizes.get(manifest_key, 0) <= MANIFEST_BYTES:
            return StoredState.PARTIAL
        try:
            manifest = self._manifest(store, metadata)
        except (CorruptDataError, ObjectNotFoundError):
            return StoredState.PARTIAL
        expected = (metadata.segment_size, manifest.log_size, manifest.indexes_size)
        found = (manifest.file_size, sizes.get(log), sizes.get(indexes))
        if found != expected:
            return StoredState.PARTIAL
        return StoredState.COMPLETE

    def fetch_index(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata, index: IndexType) -> bytes | None:
        manifest = self._manifest(store, metadata)
        place = manifest.indexes[index]
        if manifest.is_encrypted:
            raise EncryptedSegmentError(
                f"{metadata.id}: the segment is encrypted by the plugin",
                hint="only a broker that has the plugin's key can read the segment",
            )
        if place is None:
            return None
        key = keys.segment(KeyKind.INDEXES, metadata)
        if place[1] > INDEXES_BYTES:
            raise CorruptDataError(
                f"{store.uri}{key}: the {index} has {count_of(place[1], 'byte')}, which exceeds the limit"
            )
        data = store.get_range(key, *place)
        if len(data) != place[1]:
            raise CorruptDataError(
                f"{store.uri}{key}: the {index} ends after {len(data)} of {count_of(place[1], 'byte')}"
            )
        return data

    def _manifest(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata) -> rsm_manifest.RsmManifest:
        key = keys.segment(KeyKind.RSM_MANIFEST, metadata)
        return read_decoded(store, key, rsm_manifest.decode, limit=MANIFEST_BYTES)
