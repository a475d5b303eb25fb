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

    msgspec inspects a type when it creates the decoder. The process crashes if two threads do this at once (seen with
    msgspec 0.22), so a lock prevents it.
    """
    with _LEARNING:
        if kind not in _DECODERS:
            _DECODERS[kind] = msgspec.json.Decoder(kind)
        return _DECODERS[kind]
