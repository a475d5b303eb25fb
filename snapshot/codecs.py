"""Dataclasses as rows of Arrow batches, and back: the edge between typed objects and Spark; decoders of JSON.

A column is a field, and its Arrow type that of the annotation: `int` is int64 (a `partition` int32, as in Kafka), an
enum its text, a tuple a list, a dataclass a struct. Arrays of producer deltas never pass through (tables.deltas).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from itertools import chain
from threading import Lock
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
T = TypeVar("T")
_NONE: Mapping[str, Any] = MappingProxyType({})
_REQUIRED = (MISSING, MISSING)
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
        pairs: Mapping[str, pa.StructType] = _NONE,
        shifted: Mapping[str, int] = _NONE,
        values: Mapping[str, Mapping[Any, Any]] = _NONE,
        structs: Mapping[str, RowCodec[Any]] = _NONE,
        parts: Mapping[str, RowCodec[Any]] = _NONE,
        absent: Mapping[str, object] = _NONE,
        given: Mapping[str, object] = _NONE,
        without: Collection[str] = (),
    ) -> None:
        """Derive the columns from the fields of a dataclass.

        Args:
            columns: by field, names of columns that have another one.
            pairs: by field that holds pairs, the struct of one.
            shifted: by field, by how much its column is greater: -1 for an exclusive offset in an inclusive column.
            values: by field, what the column has for each value.
            structs: by field that holds one dataclass or a tuple of them, its codec, where the plain one does not do:
                other nested ones are read without defaults for nulls.
                A single one may have fields that are columns of the row around it.
            parts: by field that holds a dataclass, the codec of columns that lie beside the others. For None all are
                null; when they are read, the first of them tells.
            absent: by column of a part, what it has for None instead of null.
            given: fields that no column holds, and what they are when they are read.
            without: fields that no column holds.
        """
        decoder(kind)  # so that msgspec has learned it
        self._kind, self._pairs, self._values, self._structs, self._parts = kind, pairs, values, structs, parts
        self._absent, self._given = absent, given
        # Field, column, and whether a null stands for the default.
        self._fields = [
            (each.name, columns.get(each.name, each.name), (each.default, each.default_factory) != _REQUIRED)
            for each in fields(kind)  # type: ignore[arg-type]
            if each.name not in without and each.name not in given
        ]
        self._hints: dict[str, Any] = get_type_hints(kind)
        self._optional = {name for name, hint in self._hints.items() if NoneType in get_args(hint)}
        self._to: dict[str, Callable[[Any], Any]] = {}
        self._of: dict[str, Callable[[Any], Any]] = {}
        for name, hint in self._hints.items():
            if get_origin(hint) is Mapping:
                self._of[name] = dict
            if _holds_dataclass(hint):
                self._to[name] = msgspec.to_builtins
        for name, struct in pairs.items():
            self._to[name], self._of[name] = _structs_of(tuple(each.name for each in struct)), _pairs_of
        for name, number in shifted.items():
            self._to[name], self._of[name] = number.__add__, (-number).__add__
        for name, called in values.items():
            inverse = {column: value for value, column in called.items()}
            self._to[name], self._of[name] = called.__getitem__, inverse.__getitem__

    def to_row(self, value: T) -> Row:
        """Return the columns of a value."""
        row: Row = {}
        for name, column, _ in self._fields:
            each = getattr(value, name)
            if name in self._parts:
                part = self._parts[name]
                row |= {**dict.fromkeys(part.names), **self._absent} if each is None else part.to_row(each)
            elif each is None:
                row[column] = None
            elif name in self._structs:
                to_row = self._structs[name].to_row
                row[column] = [to_row(one) for one in each] if isinstance(each, tuple) else to_row(each)
            else:
                row[column] = self._to[name](each) if name in self._to else each
        return row

    def of_row(self, row: Mapping[str, Any], **others: object) -> T:
        """Return the value that has these columns; `others` are fields, and go before columns."""
        found: dict[str, object] = {**self._given, **others}
        for name, column, has_default in self._fields:
            if name in others:
                continue
            if name in self._parts:
                part = self._parts[name]
                if name not in self._optional or row.get(part.names[0]) is not None:
                    found[name] = part.of_row(row)
                elif not has_default:
                    found[name] = None
                continue
            each = row.get(column)
            if each is None:
                if not has_default:
                    found[name] = None
            elif name in self._structs:
                of_row = self._structs[name].of_row
                found[name] = [of_row(one) for one in each] if isinstance(each, list) else of_row({**row, **each})
            else:
                found[name] = self._of[name](each) if name in self._of else each
        return msgspec.convert(found, self._kind)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; without pyarrow, which a host need not have."""
        named = (self._parts[name].names if name in self._parts else (column,) for name, column, _ in self._fields)
        return tuple(chain.from_iterable(named))

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns in the order of the fields; each may be null."""
        import pyarrow as pa

        found: list[tuple[str, pa.DataType]] = []
        for name, column, _ in self._fields:
            if name in self._parts:
                found += [(each.name, each.type) for each in self._parts[name].schema]
            elif name in self._pairs:
                found.append((column, pa.list_(self._pairs[name])))
            else:
                found.append((column, self._type(name, column)))
        return pa.schema(found)

    def _type(self, name: str, column: str) -> pa.DataType:
        import pyarrow as pa

        if name in self._values:
            named: pa.DataType = pa.array(list(self._values[name].values())).type
            return named
        struct = pa.struct(list(self._structs[name].schema)) if name in self._structs else None
        found = _arrow_type(self._hints[name], struct)
        return pa.int32() if column == "partition" and pa.types.is_integer(found) else found

    def batch(self, values: Iterable[T], schema: pa.Schema | None = None) -> pa.RecordBatch:
        """Return a row for each value, in the columns of `schema`, or of the codec's own."""
        import pyarrow as pa

        return pa.RecordBatch.from_pylist([self.to_row(value) for value in values], schema=schema or self.schema)

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[T]:
        """Yield the value of each row."""
        for batch in batches:
            for row in batch.to_pylist():
                yield self.of_row(row)


def _arrow_type(hint: Any, struct: pa.StructType | None = None) -> pa.DataType:  # noqa: ANN401
    """Return the type of a column by the annotation of its field; `struct` is that of a dataclass in it."""
    import pyarrow as pa

    inner = [each for each in get_args(hint) if each is not NoneType and each is not ...]
    if get_origin(hint) is UnionType:
        return _arrow_type(inner[0], struct)
    if get_origin(hint) is Mapping:
        return pa.map_(*map(_arrow_type, inner))
    if get_origin(hint) is tuple:
        return pa.list_(_arrow_type(inner[0], struct))
    if isinstance(hint, type) and is_dataclass(hint):
        return struct or pa.struct(list(RowCodec(hint).schema))
    types: dict[type, pa.DataType] = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return next(found for kind, found in types.items() if issubclass(hint, kind))


def _holds_dataclass(hint: Any) -> bool:  # noqa: ANN401
    return is_dataclass(hint) or any(map(_holds_dataclass, get_args(hint)))


def _structs_of(names: tuple[str, ...]) -> Callable[[Iterable[tuple[int, int]]], list[dict[str, int]]]:
    return lambda pairs: [dict(zip(names, pair, strict=True)) for pair in pairs]


def _pairs_of(structs: Iterable[Mapping[str, int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(each.values()) for each in structs)
