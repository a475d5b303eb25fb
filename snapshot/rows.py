"""Convert frozen dataclasses to columns of Arrow batches, and back.

Each field becomes a column with the field's name. The annotation decides the column's Arrow type:

    int, float, bool, str   int64 (int32 or int16 for `Int32`, `Int16`), float64, bool, string
    an enum                 the type of its values
    tuple[X, ...]           list<X>; if X is a dataclass, a list of structs
    Mapping[str, X]         map<string, X>
    X | None                the type of X; the column may be null
    NamedTuple              a struct
    a dataclass             no column of its own: each of its fields becomes a column
    a dataclass | None      the same columns, all null for None

Two fields with the same column name are an error. `msgspec.Meta(description=…)` in `Annotated` is the comment of a
column. There are no other options: to rename a column, rename the field. Producer deltas do not use this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from itertools import pairwise
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

T = TypeVar("T")
Values = list[Any]
Array: TypeAlias = "pa.Array[Any]"


@dataclass(frozen=True, slots=True)
class Width:
    """The width of an integer column in bits."""

    bits: int


Int32 = Annotated[int, Width(32)]
Int16 = Annotated[int, Width(16)]


class Rows(Generic[T]):
    """A converter between values of one dataclass and Arrow batches. It inspects the dataclass at the first use."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    @cached_property
    def _group(self) -> _Group:
        return _group_of(self.kind)  # type: ignore[arg-type]  # a type is hashable

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns. This does not import pyarrow."""
        return tuple(each.name for each in self._group.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema: the columns in the order of the fields, with comments in their metadata."""
        import pyarrow as pa

        return pa.schema(self._group.arrow_fields(is_optional=False))

    def batch(self, values: Iterable[T]) -> pa.RecordBatch:
        """Return a batch with one row for each value."""
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(list(self._group.write(list(values))), schema=self.schema)

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[T]:
        """Yield a dataclass for each row. An optional contained dataclass is None if the batch lacks its columns."""
        for batch in batches:
            existing = set(batch.schema.names)
            columns: dict[str, Values] = {}
            for each in self._group.columns:
                if each.name in existing:
                    columns[each.name] = each.kind.decode(batch.column(each.name))
            yield from self._group.read(columns, batch.num_rows)

    def read_dicts(self, rows: Sequence[Mapping[str, Any]]) -> list[T]:
        """Return a dataclass for each row. A row is a dict by column name, as pyarrow's `to_pylist` returns it."""
        import pyarrow as pa

        return list(self.read([pa.RecordBatch.from_pylist(list(rows), schema=self.schema)]))


@dataclass(frozen=True)
class _Kind:
    """The Arrow type, encoding and decoding of a column of simple values."""

    type: type
    bits: int = 64

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        simple: dict[type, pa.DataType] = {str: pa.string(), bool: pa.bool_(), float: pa.float64()}
        integers: dict[int, pa.DataType] = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
        return integers[self.bits] if self.type is int else simple[self.type]

    def encode(self, values: Values) -> Array:
        import pyarrow as pa

        return pa.array(values, self.arrow_type)

    def decode(self, array: Array) -> Values:
        return array.to_pylist()


@dataclass(frozen=True)
class _Enum(_Kind):
    members: type[Enum] = Enum

    def decode(self, array: Array) -> Values:
        by_value = {None: None, **{each.value: each for each in self.members}}
        return [by_value[each] for each in array.to_pylist()]


@dataclass(frozen=True)
class _Map(_Kind):
    key: _Kind = _Kind(str)
    inner: _Kind = _Kind(int)

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.map_(self.key.arrow_type, self.inner.arrow_type)

    def encode(self, values: Values) -> Array:
        return super().encode([None if each is None else list(each.items()) for each in values])

    def decode(self, array: Array) -> Values:
        return [None if each is None else dict(each) for each in array.to_pylist()]


@dataclass(frozen=True)
class _NamedTuple(_Kind):
    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        hints = get_type_hints(self.type, include_extras=True)
        return pa.struct([(name, _kind_of(hint).arrow_type) for name, hint in hints.items()])

    def decode(self, array: Array) -> Values:
        return [None if each is None else self.type(**each) for each in array.to_pylist()]


@dataclass(frozen=True)
class _Struct(_Kind):
    @property
    def _group(self) -> _Group:
        return _group_of(self.type)

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.struct(self._group.arrow_fields(is_optional=True))

    def encode(self, values: Values) -> Array:
        import pyarrow as pa

        fields_of = self._group.arrow_fields(is_optional=True)
        return pa.StructArray.from_arrays(list(self._group.write(values)), fields=fields_of)

    def decode(self, array: Array) -> Values:
        import pyarrow as pa

        assert isinstance(array, pa.StructArray)
        columns = {each.name: each.kind.decode(array.field(each.name)) for each in self._group.columns}
        return self._group.read(columns, len(array))


def list_ends(lists: pa.ListArray[Any]) -> np.ndarray:
    """Return n + 1 numbers for n lists: the index of each list's first element, and the end of the last list.

    If there are no lists, the result is [0]. Arrow for Java up to 18 (Spark 4.1) lacks this offset in an empty array.
    """
    import numpy as np

    return lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int32)


@dataclass(frozen=True)
class _List(_Kind):
    inner: _Kind = _Kind(int)

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.list_(self.inner.arrow_type)

    def encode(self, values: Values) -> Array:
        import pyarrow as pa

        starts: list[int | None] = []
        elements: Values = []
        for each in values:
            if each is None:
                starts.append(None)
            else:
                starts.append(len(elements))
                elements.extend(each)
        offsets = pa.array([*starts, len(elements)], pa.int32())
        return pa.ListArray.from_arrays(offsets, self.inner.encode(elements), type=self.arrow_type)

    def decode(self, array: Array) -> Values:
        import pyarrow as pa

        assert isinstance(array, pa.ListArray)
        offsets: list[int] = list_ends(array).tolist()
        flat = self.inner.decode(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
        first = offsets[0]
        found = [tuple(flat[start - first : end - first]) for start, end in pairwise(offsets)]
        return [each if is_valid else None for each, is_valid in zip(found, array.is_valid().to_pylist(), strict=True)]


@dataclass(frozen=True)
class _Column:
    """A field that is one column."""

    name: str
    kind: _Kind
    is_nullable: bool
    comment: str

    def arrow_field(self, *, is_optional: bool) -> pa.Field[pa.DataType]:
        import pyarrow as pa

        comment: dict[bytes | str, bytes | str] | None = {"comment": self.comment} if self.comment else None
        return pa.field(self.name, self.kind.arrow_type, nullable=self.is_nullable or is_optional, metadata=comment)

    def read(self, columns: Mapping[str, Values], _: int) -> Values:
        return columns[self.name]


@dataclass(frozen=True)
class _Group:
    """The columns of a dataclass."""

    kind: type
    names: tuple[str, ...]
    parts: tuple[_Column | _Contained, ...]
    takes_names: bool  # whether the constructor must be called with keyword arguments

    @cached_property
    def columns(self) -> tuple[_Column, ...]:
        found: list[_Column] = []
        for part in self.parts:
            if isinstance(part, _Column):
                found.append(part)
            else:
                found += part.group.columns
        return tuple(found)

    def refuse_one_name_twice(self) -> None:
        columns = [each.name for each in self.columns]
        if twice := sorted({name for name in columns if columns.count(name) > 1}):
            raise TypeError(f"{self.kind.__name__}: two fields have the same column: {', '.join(twice)}")

    def arrow_fields(self, *, is_optional: bool) -> list[pa.Field[pa.DataType]]:
        found = []
        for part in self.parts:
            if isinstance(part, _Column):
                found.append(part.arrow_field(is_optional=is_optional))
            else:
                found += part.group.arrow_fields(is_optional=is_optional or part.is_optional)
        return found

    def write(self, values: Values) -> Iterator[Array]:
        for name, part in zip(self.names, self.parts, strict=True):
            inner = [None if each is None else getattr(each, name) for each in values]
            if isinstance(part, _Column):
                yield part.kind.encode(inner)
            else:
                yield from part.group.write(inner)

    def read(self, columns: Mapping[str, Values], count: int) -> Values:
        read = [part.read(columns, count) for part in self.parts]
        rows = zip(*read, strict=True) if read else iter([()] * count)
        if self.takes_names:
            return [self.kind(**dict(zip(self.names, row, strict=True))) for row in rows]
        return [self.kind(*row) for row in rows]


@dataclass(frozen=True)
class _Contained:
    """A field that contains a dataclass; its columns are flattened into the outer row."""

    group: _Group
    is_optional: bool

    @cached_property
    def certain(self) -> str:
        """Return the name of a column that is null only if the dataclass is None. Raises TypeError: no such column."""
        certain = (each.name for each in self.group.columns if not each.is_nullable)
        found = next(certain, None)
        if found is None:
            raise TypeError(f"{self.group.kind.__name__} is optional, so it needs a field that is never None")
        return found

    def read(self, columns: Mapping[str, Values], count: int) -> Values:
        if not self.is_optional:
            return self.group.read(columns, count)
        if self.certain not in columns:
            return [None] * count
        existing = [row for row, each in enumerate(columns[self.certain]) if each is not None]
        if len(existing) == count:
            return self.group.read(columns, count)
        inner: dict[str, Values] = {}
        for each in self.group.columns:
            column = columns[each.name]
            inner[each.name] = [column[row] for row in existing]
        found: Values = [None] * count
        for row, value in zip(existing, self.group.read(inner, len(existing)), strict=True):
            found[row] = value
        return found


@cache
def _group_of(kind: type) -> _Group:
    hints = get_type_hints(kind, include_extras=True)
    found = [each for each in fields(kind) if each.init]
    names = tuple(each.name for each in found)
    parts = tuple(_part_of(name, hints[name]) for name in names)
    group = _Group(kind, names, parts, takes_names=any(each.kw_only for each in found))
    group.refuse_one_name_twice()
    for part in group.parts:
        if isinstance(part, _Contained) and part.is_optional:
            _ = part.certain
    return group


def _part_of(name: str, hint: Any) -> _Column | _Contained:  # noqa: ANN401 - annotations have no type
    inner, is_optional = _without_none(without_extras(hint))
    if isinstance(without_extras(inner), type) and is_dataclass(without_extras(inner)):
        return _Contained(_group_of(without_extras(inner)), is_optional)
    comment = (each.description for each in (*_extras(hint), *_extras(inner)) if isinstance(each, Meta))
    widths = [*_widths(hint), *_widths(inner)]
    return _Column(name, _kind_of(without_extras(inner), widths), is_optional, next(comment, None) or "")


def _extras(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401
    return hint.__metadata__ if get_origin(hint) is Annotated else ()


def _widths(hint: Any) -> list[Width]:  # noqa: ANN401
    return [each for each in _extras(hint) if isinstance(each, Width)]


def without_extras(hint: Any) -> Any:  # noqa: ANN401
    """Return an annotation without its `Annotated` wrapper."""
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def _without_none(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    (inner,) = (each for each in get_args(hint) if each is not NoneType)
    return inner, True


def _kind_of(hint: Any, widths: Sequence[Width] = ()) -> _Kind:  # noqa: ANN401
    bits = next((each.bits for each in (*widths, *_widths(hint))), 64)
    hint = without_extras(hint)
    origin = get_origin(hint)
    if origin is tuple:
        return _List(list, inner=_kind_of(get_args(hint)[0]))
    if origin is not None and issubclass(origin, Mapping):
        key, inner = map(_kind_of, get_args(hint))
        return _Map(dict, key=key, inner=inner)
    if issubclass(hint, tuple):
        return _NamedTuple(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _Struct(hint)
    simple = next(each for each in (str, bool, int, float) if issubclass(hint, each))
    return _Enum(simple, bits, hint) if issubclass(hint, Enum) else _Kind(simple, bits)
