"""The remote location: a store, and how remote segments lie in it."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.stores.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class RemoteLocation:
    """Remote storage as one plugin reads it: the store with its prefix, and how segments lie there."""

    store: ObjectStore
    layout: Layout

    @property
    def is_local(self) -> bool:
        """Return whether segments lie as LocalTieredStorage lays them."""
        return self.layout.is_local

    def log_uri(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return where the segment file lies, for messages."""
        return self.store.uri + self.layout.log_key(metadata)
