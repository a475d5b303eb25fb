"""tiersnap's own JSON in remote storage: one line, a format version, camelCase names.

Each kind of object is a msgspec Struct, whose schema checks each member. `__post_init__` checks conditions between
members, and raises ValueError. `decode` raises CorruptDataError if the bytes are not an object of the expected kind.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from tiersnap.remote_storage.metadata.segment_metadata import UUID_PATTERN
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.units import human_bytes

LONGEST = 1024  # characters of a text
_SHOWN = 200

Text = Annotated[str, Meta(max_length=LONGEST)]
SegmentId = Annotated[str, Meta(pattern=f"^{UUID_PATTERN}$")]
Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Crc = Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]


class Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of a JSON object. A member without a default is required, and unknown members are refused."""


class StoredObject(Stored, frozen=True, kw_only=True):
    """A kind of JSON object in remote storage. All kinds have the same format version.

    Attributes:
        what: name of the kind, for messages.
        limit: greatest size in bytes. A larger object is refused before it is parsed.
        hint: hint of the error for a damaged object.
    """

    what: ClassVar[str]
    limit: ClassVar[int]
    hint: ClassVar[str] = ""

    version: int = 1

    def encode(self) -> bytes:
        """Return the object as one line of JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> Self:
        """Return the object in `data`. The format version is checked first, then the members.

        Args:
            name: URI or path, for messages.

        Raises:
            NewerFormatError: a newer tiersnap wrote the object.
            CorruptDataError: the bytes are not of this kind.
        """
        try:
            if len(data) > cls.limit:
                raise ValueError(f"the object has {human_bytes(len(data))}, more than the limit of {cls.limit} bytes")  # noqa: TRY301
            version = decoder(_Versioned).decode(data).version
            if version == 1:
                return decoder(cls).decode(data)
            if version < 1:
                raise ValueError(f"version {version}")  # noqa: TRY301
        except (ValueError, RecursionError) as error:
            raise cls.corrupt(name, error) from error
        raise NewerFormatError(
            f"{name}: a newer tiersnap wrote this object in format version {str(version)[:40]}, but this "
            "tiersnap reads only versions up to 1",
            hint="upgrade tiersnap on this host, and do not change the object",
        )

    @classmethod
    def corrupt(cls, name: str, why: object) -> CorruptDataError:
        """Return the error for an object that is not of this kind. `why` is the reason."""
        return CorruptDataError(
            f"{name}: not {cls.what} that this tiersnap can read: {str(why)[:_SHOWN]}", hint=cls.hint
        )


class _Versioned(msgspec.Struct, frozen=True):
    version: int
