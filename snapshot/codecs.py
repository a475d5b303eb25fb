"""Dataclasses as rows of tables, and back: the edge between typed objects and Arrow; decoders of JSON.

A row is a dict of columns, as pyarrow takes and gives it. Arrays of producer deltas are in no row and never pass
through a codec (tables.deltas).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from threading import Lock
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

Row = dict[str, Any]
T = TypeVar("T")
_NONE: Mapping[str, Any] = MappingProxyType({})
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


class RowCodec(Generic[T]):
    """Columns of one dataclass."""

    def __init__(
        self,
        kind: type[T],
        *,
        columns: Mapping[str, str] = _NONE,
        pairs: Mapping[str, tuple[str, str]] = _NONE,
        without: Collection[str] = (),
    ) -> None:
        """Derive the columns from the fields of a dataclass.

        Args:
            columns: by field, names of columns that have another one.
            pairs: by field that holds pairs of integers, the names of both in a struct.
            without: fields that no column holds.
        """
        names = (each.name for each in fields(kind) if each.name not in without)  # type: ignore[arg-type]
        decoder(kind)  # so that msgspec has learned it
        self._kind = kind
        self._columns = tuple((name, columns.get(name, name), pairs.get(name)) for name in names)

    def to_row(self, value: T) -> Row:
        """Return the columns of a value."""
        found = ((column, getattr(value, name), names) for name, column, names in self._columns)
        return {column: each if names is None else structs_of(each, names) for column, each, names in found}

    def of_row(self, row: Mapping[str, Any], **others: object) -> T:
        """Return the value that has these columns; `others` are fields, and go before columns."""
        found = {
            name: row[column] if names is None else pairs_of(row[column])
            for name, column, names in self._columns
            if name not in others
        }
        return msgspec.convert(found | others, self._kind)


def structs_of(pairs: Iterable[tuple[int, int]] | None, names: tuple[str, str]) -> list[dict[str, int]] | None:
    """Return pairs as structs of a list column; null for None."""
    return None if pairs is None else [dict(zip(names, pair, strict=True)) for pair in pairs]


def pairs_of(structs: Iterable[Mapping[str, int]] | None) -> tuple[tuple[int, int], ...] | None:
    """Return the inverse of `structs_of`."""
    if structs is None:
        return None
    return tuple((first, second) for first, second in (each.values() for each in structs))
