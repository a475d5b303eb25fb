"""Our own JSON in remote storage: one line, a format version, camelCase names.

Each kind of object is one Struct, whose schema checks the members. A kind checks the rest in `__post_init__`, which
raises ValueError. Bytes that are not of their kind raise CorruptDataError.
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
    """A part of an object. A member without a default is required, and unknown members are refused."""


class StoredObject(Stored, frozen=True, kw_only=True):
    """A kind of object. All kinds have the same format version.

    Attributes:
        what: the kind, for messages.
        limit: bytes; a larger object is refused before it is parsed.
        hint: hint of the error about a damaged object.
    """

    what: ClassVar[str]
    limit: ClassVar[int]
    hint: ClassVar[str] = ""

    version: int = 1

    def encode(self) -> bytes:
        """Return one line of JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> Self:
        """Return the object of these bytes. The format version is checked before the members.

        Args:
            name: URI or path, for messages.

        Raises:
            NewerFormatError: a newer tiersnap wrote it.
            CorruptDataError: the bytes are not of this kind.
        """
        try:
            if len(data) > cls.limit:
                raise ValueError(f"{human_bytes(len(data))}, and none of its kind has more than {cls.limit} bytes")  # noqa: TRY301
            version = decoder(_Versioned).decode(data).version
            if version == 1:
                return decoder(cls).decode(data)
            if version < 1:
                raise ValueError(f"version {version}")  # noqa: TRY301
        except (ValueError, RecursionError) as error:
            raise cls.corrupt(name, error) from error
        raise NewerFormatError(
            f"{name}: format version {str(version)[:40]} of a newer tiersnap, this one reads up to 1",
            hint="upgrade tiersnap on this host; leave the object as it is",
        )

    @classmethod
    def corrupt(cls, name: str, why: object) -> CorruptDataError:
        """Return the error that an object is not of this kind."""
        return CorruptDataError(f"{name}: not {cls.what} that this tiersnap reads: {str(why)[:_SHOWN]}", hint=cls.hint)


class _Versioned(msgspec.Struct, frozen=True):
    version: int
