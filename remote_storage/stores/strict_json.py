"""JSON out of remote storage: whatever lies there is either what it should be or a CorruptDataError.

The standard parser takes NaN and Infinity, numbers of any length and any depth until the stack is gone; `int()` takes
texts and fractions. A number here is one that a Java long can hold, written as a number.
"""

from __future__ import annotations

import json
from typing import NoReturn

from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError
from tiersnap.snapshot.units import human_bytes

MANIFEST_BYTES = 1 << 20
_SHOWN = 40


def parse_object(data: bytes, *, name: str, limit: int = MANIFEST_BYTES) -> dict[str, object]:
    """The JSON object in `data`, of at most `limit` bytes.

    Raises:
        CorruptDataError: it is larger, too deep, or no JSON object.
    """
    if len(data) > limit:
        raise CorruptDataError(f"{name}: {human_bytes(len(data))}, and none of its kind has more than {limit} bytes")
    try:
        found = json.loads(data, parse_constant=_refuse, parse_float=_refuse)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{name}: not JSON: {str(error)[:_SHOWN]}") from error
    if not isinstance(found, dict):
        raise CorruptDataError(f"{name}: not a JSON object")
    return found


def has_version(version: object, known: int, *, name: str) -> bool:
    """Whether an object is of the format version that this tiersnap reads; asked before anything else in it is judged.

    Raises:
        NewerFormatError: its version is above `known`.
    """
    if type(version) is not int:  # True is an int
        return False
    if version > known:
        raise NewerFormatError(
            f"{name}: format version {str(version)[:_SHOWN]} of a newer tiersnap, this one reads up to {known}",
            hint="upgrade tiersnap on this host; leave the object as it is",
        )
    return version == known


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:_SHOWN]} is no whole number")


def integer(value: object, *, bits: int = 64, least: int | None = None) -> int:
    """A number of the JSON as an int of so many bits.

    Raises:
        ValueError: it is something else.
    """
    lowest = -(1 << bits - 1) if least is None else least
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value < 1 << bits - 1:
        raise ValueError(f"{str(value)[:_SHOWN]!r} is no number of {bits} bits from {lowest} on")
    return value


def text(value: object) -> str:
    """A string of the JSON.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:_SHOWN]!r} is no text")  # noqa: TRY004 - of the data, not of the program
    return value


def below(value: object, *keys: str) -> object:
    """What lies below these keys.

    Raises:
        ValueError: there is no such key, or something on the way is no object.
    """
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"no {key!r}")
        value = value[key]
    return value
