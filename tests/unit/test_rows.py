"""Dataclasses as rows and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from tiersnap.snapshot.members import member_types, members
from tiersnap.snapshot.rows import Int16, Int32, Rows, list_ends

pytestmark = pytest.mark.unit


class Colour(StrEnum):
    RED = "RED"
    GREEN = "GREEN"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Epoch(NamedTuple):
    epoch: Int32
    start_offset: int


@dataclass(frozen=True)
class Fault:
    error: str
    is_transient: bool = False


@dataclass(frozen=True, kw_only=True)
class Inner:
    offset: int
    fault: Fault | None
    epochs: tuple[Epoch, ...] | None
    colours: tuple[Colour, ...] = ()


@dataclass(frozen=True)
class Outer:
    partition: Annotated[Int32, Meta(description="number of the partition")]
    short: Int16 | None
    level: Level
    inner: Inner
    hint: Hint | None
    many: tuple[Inner, ...] | None
    names: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_mended: bool = False
    size: float | None = None


@dataclass(frozen=True)
class Hint:
    unknown: str | None
    hint: str


OUTER = Rows(Outer)
longs = st.integers(-(1 << 62), 1 << 62)
texts = st.text(max_size=5)
inners = st.builds(
    Inner,
    offset=longs,
    fault=st.none() | st.builds(Fault, texts, st.booleans()),
    epochs=st.none() | st.lists(st.builds(Epoch, st.integers(0, 9), longs), max_size=2).map(tuple),
    colours=st.lists(st.sampled_from(Colour), max_size=2).map(tuple),
)
outers = st.builds(
    Outer,
    st.integers(0, 9),
    st.none() | st.integers(-9, 9),
    st.sampled_from(Level),
    inners,
    st.none() | st.builds(Hint, st.none() | texts, texts),
    st.none() | st.lists(inners, max_size=2).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
    st.dictionaries(texts, texts, max_size=2),
    st.booleans(),
    st.none() | st.floats(allow_nan=False),
)


@given(st.lists(outers, max_size=4))
def test_rows_give_back_the_objects_that_a_batch_was_made_of(values: list[Outer]) -> None:
    batch = OUTER.batch(values)
    assert batch.schema == OUTER.schema
    assert list(OUTER.read([batch.slice(0, 1), batch.slice(1)])) == values
    assert OUTER.read_dicts(batch.to_pylist()) == values


def test_list_ends_is_zero_of_a_column_without_rows_whose_offsets_have_no_bytes() -> None:
    """Arrow for Java up to 18 sends such a buffer; what lies behind it is not ours."""
    no_bytes = pa.py_buffer(b"\xff" * 16).slice(0, 0)
    empty = pa.Array.from_buffers(pa.list_(pa.int64()), 0, [None, no_bytes], children=[pa.array([], pa.int64())])
    assert list_ends(empty).tolist() == [0]


def test_columns_follow_from_the_annotations() -> None:
    epochs = pa.list_(pa.struct([("epoch", pa.int32()), ("start_offset", pa.int64())]))
    inner = pa.struct(
        [
            ("offset", pa.int64()),
            ("error", pa.string()),
            ("is_transient", pa.bool_()),
            ("epochs", epochs),
            ("colours", pa.list_(pa.string())),
        ]
    )
    assert [(each.name, each.type, each.nullable) for each in OUTER.schema] == [
        ("partition", pa.int32(), False),
        ("short", pa.int16(), True),
        ("level", pa.int64(), False),
        ("offset", pa.int64(), False),
        ("error", pa.string(), True),
        ("is_transient", pa.bool_(), True),
        ("epochs", epochs, True),
        ("colours", pa.list_(pa.string()), False),
        ("unknown", pa.string(), True),
        ("hint", pa.string(), True),
        ("many", pa.list_(inner), True),
        ("names", pa.list_(pa.string()), False),
        ("reasons", pa.map_(pa.string(), pa.string()), False),
        ("is_mended", pa.bool_(), False),
        ("size", pa.float64(), True),
    ]
    assert OUTER.schema.field("partition").metadata == {b"comment": b"number of the partition"}


@dataclass(frozen=True)
class Twice:
    inner: Inner
    offset: int


@dataclass(frozen=True)
class AllMayBeNone:
    size: int | None = None


@dataclass(frozen=True)
class NeverKnown:
    key: str
    inner: AllMayBeNone | None


def test_two_fields_for_one_column_are_refused() -> None:
    with pytest.raises(TypeError, match="Twice: two fields have the same column: offset"):
        _ = Rows(Twice).schema


def test_contained_dataclass_that_no_column_shows_is_refused() -> None:
    with pytest.raises(TypeError, match="AllMayBeNone is optional"):
        _ = Rows(NeverKnown).schema


def test_contained_dataclass_is_none_if_its_columns_were_left_out() -> None:
    value = Outer(1, None, Level.LOW, Inner(offset=1, fault=None, epochs=None), Hint(None, "x"), None)
    batch = OUTER.batch([value])
    (read,) = OUTER.read([batch.select([name for name in batch.schema.names if name not in ("unknown", "hint")])])
    assert read == Outer(1, None, Level.LOW, value.inner, None, None)
    with pytest.raises(KeyError, match="short"):
        list(OUTER.read([batch.select(["partition"])]))


def test_members_are_those_of_contained_dataclasses_beside_the_others() -> None:
    value = Outer(1, None, Level.LOW, Inner(offset=1, fault=None, epochs=None), Hint(None, "x"), None)
    found = members(value)
    assert list(found) == list(member_types(Outer)) == list(OUTER.names)
    assert (found["offset"], found["error"], found["hint"], found["level"]) == (1, None, "x", Level.LOW)


def test_two_fields_for_one_member_are_refused() -> None:
    with pytest.raises(TypeError, match="Twice: two fields have the same JSON member: offset"):
        member_types(Twice)
