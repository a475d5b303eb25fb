"""Decoders of JSON objects as dataclasses."""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_LEARNING = Lock()
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type, always the same one.

    msgspec learns a type, and those inside it, when it first meets it. Threads that let it do so at once crash the
    process (seen with msgspec 0.22), so one at a time may.
    """
    with _LEARNING:
        if kind not in _DECODERS:
            _DECODERS[kind] = msgspec.json.Decoder(kind)
        return _DECODERS[kind]
