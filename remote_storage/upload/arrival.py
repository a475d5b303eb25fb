"""See that objects arrived: a server that says 200 has not always kept what was sent.

Each object is compared as soon as it was sent, by the checksum in the answer to the put, or by HEAD where the answer
has none. Before the copy becomes visible its objects are listed once more: one that was acknowledged may be lost since.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore, PutResult
from tiersnap.snapshot.errors import RemoteStorageError, TransientError
from tiersnap.snapshot.units import count_of


def check_stored(store: ObjectStore, key: str, put: PutResult) -> None:
    """Compare an object with what was sent; one HEAD, none where the answer to the put proved it.

    Raises:
        TransientError: it is not there.
        RemoteStorageError: the store has other bytes.
    """
    if not put.proved:
        _check(store, key, put, store.head(key))


def check_listed(store: ObjectStore, stem: str, sent: Iterable[tuple[str, PutResult]]) -> None:
    """See that all objects of a copy are there, with their sizes and ETags; one listing.

    Args:
        stem: what the keys of the copy's objects begin with.
        sent: keys with what the puts gave.

    Raises:
        TransientError: one is not there.
        RemoteStorageError: the store has other bytes.
    """
    puts = dict(sent)
    listed = {found.key: found for found in store.list_keys(stem, puts.keys())}
    for key, put in puts.items():
        _check(store, key, put, listed.get(key))


def _check(store: ObjectStore, key: str, put: PutResult, found: ObjectInfo | None) -> None:
    if found is None:
        raise TransientError(
            f"{store.uri}{key}: not there after it was written", hint="run the same command again: it copies anew"
        )
    # A listing tells no checksum, and a directory's no ETag.
    is_another = bool(found.etag and put.etag) and found.crc32c is None and found.etag.strip('"') != put.etag.strip('"')
    if found.size != put.size or found.crc32c not in {None, put.crc32c} or is_another:
        raise RemoteStorageError(
            f"{store.uri}{key}: wrote {count_of(put.size, 'byte')} with CRC {put.crc32c:08x}, the store has "
            f"{count_of(found.size, 'byte')}{_what_else(found, is_another=is_another)}",
            hint="run the same command again; if it recurs, the store is not to be trusted with this",
            key=key,
        )


def _what_else(found: ObjectInfo, *, is_another: bool) -> str:
    if found.crc32c is not None:
        return f" with CRC {found.crc32c:08x}"
    return " under another ETag" if is_another else ""
