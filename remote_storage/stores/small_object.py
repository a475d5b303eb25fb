"""Read small objects. The size is checked before the read, and a damaged object is read a second time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError
from tiersnap.snapshot.units import human_bytes

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Decoded = TypeVar("_Decoded", covariant=True)

MANIFEST_BYTES = 1 << 20
INDEXES_BYTES = 512 << 20  # limit for all indexes of a segment, including 50 MB for 1 M producers


def get_small(store: ObjectStore, found: ObjectInfo, *, limit: int = MANIFEST_BYTES) -> bytes:
    """Return the content of an object that a listing or `head` found.

    Raises:
        CorruptDataError: the object has more than `limit` bytes.
        ObjectNotFoundError: the object was deleted.
    """
    if found.size > limit:
        raise CorruptDataError(
            f"{store.uri}{found.key}: the object has {human_bytes(found.size)}, more than the limit of "
            f"{human_bytes(limit)}",
            key=found.key,
        )
    return store.get(found.key)


class Decode(Protocol[_Decoded]):
    """A function that decodes the bytes of an object, or raises CorruptDataError with the object's name."""

    def __call__(self, data: bytes, *, name: str) -> _Decoded:
        """Decode `data`."""


def read_decoded(store: ObjectStore, key: str, decode: Decode[_T], *, limit: int | None = None) -> _T:
    """Return the decoded content of an object. If the object is damaged, read it a second time.

    Raises:
        ObjectNotFoundError: the object was deleted.
        NewerFormatError, CorruptDataError: see `read_twice_if_damaged`.
    """
    return read_twice_if_damaged(lambda: decode(store.get(key, limit=limit), name=store.uri + key))


def read_twice_if_damaged(read: Callable[[], _T]) -> _T:
    """Return the result of `read`.

    If `read` raises CorruptDataError, call it once more: a bit may have flipped in transit.

    Raises:
        NewerFormatError: a newer tiersnap wrote the object. This is not damage, and `read` is not repeated.
        CorruptDataError: the object is damaged in both reads.
    """
    try:
        return read()
    except NewerFormatError:
        raise
    except CorruptDataError as error:
        _log.warning("reading again: %s", error.message)
        return read()
