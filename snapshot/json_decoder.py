"""Cached msgspec decoders from JSON to dataclasses."""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_LEARNING = Lock()
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder for `kind`; later calls return the same decoder.

    msgspec inspects a type at its first use. Two threads that do this at once crash the process (seen with msgspec
    0.22), so a lock serializes them.
    """
    with _LEARNING:
        if kind not in _DECODERS:
            _DECODERS[kind] = msgspec.json.Decoder(kind)
        return _DECODERS[kind]
