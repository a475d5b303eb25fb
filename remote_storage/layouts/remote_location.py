"""The remote location: a store, and the layout of the remote segments in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.store_settings import location_words


@dataclass(frozen=True, slots=True)
class RemoteLocation:
    """A remote location: the store with its URI prefix, and the layout of the segments."""

    store: ObjectStore
    layout: Layout

    @property
    def is_local(self) -> bool:
        """Return whether the layout is that of LocalTieredStorage."""
        return self.layout.is_local

    @property
    def in_other_layout(self) -> RemoteLocation:
        """Return the same store with the other layout."""
        (other,) = LAYOUTS.keys() - {self.layout.name}
        return replace(self, layout=LAYOUTS[other]())

    @property
    def words(self) -> list[str]:
        """Return the location as words of a command line: the value of --remote, then the options of the location."""
        return location_words(self.store.uri, self.layout.name, self.store.words)

    def log_uri(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the URI of the segment file, for messages."""
        return self.store.uri + self.layout.log_key(metadata)


def open_location(store: ObjectStore, layout: str) -> RemoteLocation:
    """Return a store with the layout of this name. Raises UsageError: there is no such layout."""
    return RemoteLocation(store, open_layout(layout))


def in_each_layout(store: ObjectStore) -> tuple[RemoteLocation, ...]:
    """Return one remote location in `store` for each layout."""
    return tuple(RemoteLocation(store, layout()) for layout in LAYOUTS.values())
