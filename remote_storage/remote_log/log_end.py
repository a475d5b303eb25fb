"""Find the end offset of a remote segment's log object from its batch headers."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, CorruptIndexError
from tiersnap.snapshot.formats.indexes import decode_offset_index, position_of

_WINDOW = 1 << 20  # bytes
_LARGEST_INDEX = 64 << 20  # bytes
_HEADER = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta


def local_end(store: ObjectStore, objects: Mapping[KeyKind, ObjectInfo], start_offset: int) -> int:
    """Return the exclusive end offset of a LocalTieredStorage log, from the batches after the last index entry.

    Raises:
        ObjectNotFoundError: an object was deleted.
        CorruptDataError: the log object is not a sequence of complete batches.
    """
    log, index = objects[KeyKind.LOCAL_LOG], objects[KeyKind.LOCAL_OFFSET_INDEX]
    try:
        entries = decode_offset_index(
            store.get(index.key, limit=_LARGEST_INDEX), base_offset=start_offset, name=index.key
        )
        position = position_of(entries, (1 << 63) - 1)
    except CorruptIndexError:
        position = 0
    return _log_end(store, log, start_offset, position)


def _log_end(store: ObjectStore, log: ObjectInfo, start_offset: int, position: int) -> int:
    """Return the exclusive end offset of a log object. Read it from byte `position` on, where a batch begins."""
    last_offset, begins, window = start_offset - 1, position, b""
    while position < log.size:
        if position + _HEADER.size > begins + len(window):
            begins, window = position, store.get_range(log.key, position, _WINDOW)
        if len(window) - (position - begins) < _HEADER.size:
            break
        base_offset, length, magic, delta = _HEADER.unpack_from(window, position - begins)
        if base_offset <= last_offset:
            raise CorruptDataError(
                f"{log.key}: the batch at byte {position} begins at offset {base_offset}, which is below the "
                f"expected {last_offset + 1}"
            )
        last_offset = base_offset + (delta if magic >= 2 else 0)
        position += 12 + max(length, 0)
    if position != log.size or last_offset < start_offset:
        raise CorruptDataError(
            f"{log.key}: the last batch ends at byte {position}, but the object has {log.size} bytes"
        )
    return int(last_offset) + 1
