"""The object of a lock: conditional writes, conditional deletion, and the check whether its holder has ended.

A write replaces only the version that was read. So one of several writers succeeds, and the others get an error.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Generic, TypeVar

from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError
from tiersnap.remote_storage.layouts.stored_json import StoredObject
from tiersnap.remote_storage.locks.process import Process, is_gone
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.remote_storage.stores.small_object import Decode, read_twice_if_damaged
from tiersnap.snapshot.errors import ObjectExistsError

_log = logging.getLogger(__name__)
C = TypeVar("C", bound=StoredObject)


@dataclass(frozen=True, slots=True)
class StoredContent(Generic[C]):
    """The content of a lock object as it was read. Times are in ms, by the store's clock."""

    content: C
    etag: str  # for `write`
    age: int  # ms since the object was written
    written_at: int


def read(store: ObjectStore, key: str, kind: type[C], decode: Decode[C] | None = None) -> StoredContent[C] | None:
    """Return the content of an object, or None if it does not exist. If it is damaged, read it once more.

    Args:
        decode: used instead of `kind.decode` if given.

    Raises:
        NewerFormatError, CorruptDataError: see `StoredObject.decode`.
    """

    def once() -> StoredContent[C]:
        found = store.read(key, limit=kind.limit)
        content = (decode or kind.decode)(found.data, name=store.uri + key)
        return StoredContent(content, found.info.etag, found.age, found.info.modified)

    try:
        return read_twice_if_damaged(once)
    except ObjectNotFoundError:
        return None


def write(store: ObjectStore, key: str, content: StoredObject, etag: str | None) -> str:
    """Replace the version with this ETag, or create the object if `etag` is None. Return the new ETag.

    Raises:
        ObjectChangedError: the object has another ETag, was deleted, or already exists.
    """
    data = content.encode()
    try:
        put = store.put_if_absent(key, data) if etag is None else store.replace_if(key, data, etag)
    except ObjectExistsError as error:
        raise ObjectChangedError(error.message, hint=error.hint) from error
    _log.debug("wrote %s%s", store.uri, key)
    return put.etag


def is_current(store: ObjectStore, key: str, etag: str | None) -> bool:
    """Return whether the object still has this ETag."""
    found = store.head(key)
    return found is not None and found.etag == etag


def delete(store: ObjectStore, key: str, etag: str | None) -> tuple[DeleteFailure, ...]:
    """Delete the object if it still has this ETag. Return the failure to delete it, if any."""
    if not is_current(store, key, etag):
        return ()
    return store.delete([key])


def why_over(process: Process | None, age: int, stale_after_ms: int, *, is_ended: bool = False) -> str | None:
    """Return the reason why the holder of a lock has ended, or None if it may be running.

    Args:
        process: the holder's process; None if the holder has released the lock and the object names no process.
        age: ms since the holder last wrote the object, by the store's clock.
        stale_after_ms: an age that no running holder reaches.
        is_ended: whether the object records that the holder has ended.
    """
    if is_ended or process is None:
        return "its holder released it"
    if age > stale_after_ms:
        return "it is stale"
    if is_gone(process):
        return "the process of its holder has ended"
    return None
