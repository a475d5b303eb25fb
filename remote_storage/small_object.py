"""Reading an object that should be small: its size is looked at before a byte is fetched."""

from __future__ import annotations

from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.strict_json import MANIFEST_BYTES
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.units import human_bytes

INDEXES_BYTES = 512 << 20  # all indexes of a segment; 1 M producers are 50 MB of it


def get_small(store: ObjectStore, found: ObjectInfo, *, limit: int = MANIFEST_BYTES) -> bytes:
    """The object that a listing or `head` found.

    Raises:
        CorruptDataError: it has more than `limit` bytes.
        ObjectNotFoundError: it is gone.
    """
    if found.size > limit:
        raise CorruptDataError(
            f"{store.uri}{found.key}: {human_bytes(found.size)}, and none of its kind has more than "
            f"{human_bytes(limit)}",
            key=found.key,
        )
    return store.get(found.key)
