"""Our own JSON in remote storage: one line, a version, camelCase names; read strictly, and written on a condition.

An object is either of its kind or a CorruptDataError. Each kind is a Struct, whose schema checks an object. The module
of the kind checks the rest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError
from tiersnap.remote_storage.metadata.segment_metadata import UUID_PATTERN
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import Decode, read_twice_if_damaged
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError, ObjectExistsError
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.units import human_bytes

_log = logging.getLogger(__name__)

LONGEST = 1024  # characters of a text
_SHOWN = 200

Text = Annotated[str, Meta(max_length=LONGEST)]
SegmentId = Annotated[str, Meta(pattern=f"^{UUID_PATTERN}$")]
Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Crc = Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]


class Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of an object; every field is there, and no other."""


class StoredObject(Stored, frozen=True, kw_only=True):
    """An object; all kinds have the same format version."""

    version: int = 1


class _Versioned(msgspec.Struct, frozen=True):
    version: int


T = TypeVar("T", bound=StoredObject)
C = TypeVar("C")


def encode(content: StoredObject) -> bytes:
    """One line of JSON."""
    return msgspec.json.encode(content)


def decode(data: bytes, kind: type[T], *, name: str, what: str, limit: int, hint: str = "") -> T:
    """The inverse of `encode`; the version is looked at before anything else is judged.

    Args:
        name, what: of the object and its kind, for messages.
        limit: bytes; none of its kind has more.

    Raises:
        NewerFormatError: a newer tiersnap wrote it.
        CorruptDataError: not such an object.
    """
    try:
        if len(data) > limit:
            raise ValueError(f"{human_bytes(len(data))}, and none of its kind has more than {limit} bytes")  # noqa: TRY301
        version = decoder(_Versioned).decode(data).version
        if version == 1:
            return decoder(kind).decode(data)
        if version < 1:
            raise ValueError(f"version {version}")  # noqa: TRY301
    except (ValueError, RecursionError) as error:
        raise corrupt(name, what, error, hint) from error
    raise NewerFormatError(
        f"{name}: format version {str(version)[:40]} of a newer tiersnap, this one reads up to 1",
        hint="upgrade tiersnap on this host; leave the object as it is",
    )


def corrupt(name: str, what: str, why: object, hint: str = "") -> CorruptDataError:
    """Return the error that an object is not `what` it should be."""
    return CorruptDataError(f"{name}: not {what} that this tiersnap reads: {str(why)[:_SHOWN]}", hint=hint)


@dataclass(frozen=True, slots=True)
class StoredContent(Generic[C]):
    """The content of an object as it was read; times are in ms, by the store's clock."""

    content: C
    etag: str  # for `write`
    age: int  # since it was written
    written_at: int


def read(store: ObjectStore, key: str, decode: Decode[C], *, limit: int) -> StoredContent[C] | None:
    """Return an object, read once more if that is damaged, None if there is none; raises as `decode`."""

    def once() -> StoredContent[C]:
        found = store.read(key, limit=limit)
        return StoredContent(decode(found.data, name=store.uri + key), found.info.etag, found.age, found.info.modified)

    try:
        return read_twice_if_damaged(once)
    except ObjectNotFoundError:
        return None


def write(store: ObjectStore, key: str, content: bytes, etag: str | None) -> str:
    """Write an object in the place of the one with this ETag, or of none (None); returns its own.

    Raises:
        ObjectChangedError: another one is there.
    """
    try:
        put = store.put_if_absent(key, content) if etag is None else store.replace_if(key, content, etag)
    except ObjectExistsError as error:
        raise ObjectChangedError(error.message, hint=error.hint) from error
    _log.debug("wrote %s%s", store.uri, key)
    return put.etag
