"""The layouts by name."""

from __future__ import annotations

from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.snapshot.errors import UsageError

LAYOUTS: dict[str, type[AivenLayout] | type[LocalTieredStorageLayout]] = {
    "aiven": AivenLayout,
    "local-tiered-storage": LocalTieredStorageLayout,
}


def open_layout(name: str) -> Layout:
    """Return the layout with this name. Raises UsageError: there is no such layout."""
    if name not in LAYOUTS:
        raise UsageError(f"there is no layout {name!r}", hint=f"the layouts are {', '.join(LAYOUTS)}")
    return LAYOUTS[name]()
