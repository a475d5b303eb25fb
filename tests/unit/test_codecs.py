"""Decoders that many threads ask for at once; dataclasses as rows and back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.snapshot.codecs import RowCodec

pytestmark = pytest.mark.unit

# Types of its own, which no import has met; claims and manifests are read in threads like this.
_AT_ONCE = """
from __future__ import annotations
import sys, threading
from dataclasses import dataclass
import msgspec
from tiersnap.snapshot.codecs import decoder

class Part(msgspec.Struct):
    size: int
    names: dict[str, int | None]

class Whole(msgspec.Struct, rename="camel"):
    first_part: Part
    parts: list[Part]
    more: tuple[Part, ...] = ()

sys.setswitchinterval(1e-6)
part = b'{"size": 1, "names": {"a": 1}}'
text = b'{"firstPart": %b, "parts": [%b], "more": [%b]}' % (part, part, part)
begin = threading.Barrier(16)

def read():
    begin.wait()
    for _ in range(200):
        assert decoder(Whole).decode(text).parts[0].size == 1

threads = [threading.Thread(target=read) for _ in range(16)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_decoder_of_a_type_that_threads_meet_at_once_crashes_none() -> None:
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr


class Colour(StrEnum):
    RED = "RED"
    GREEN = "GREEN"


@dataclass(frozen=True)
class Fault:
    message: str
    is_transient: bool = False


@dataclass(frozen=True)
class Inner:
    offset: int
    epochs: tuple[tuple[int, int], ...] | None
    colours: tuple[Colour, ...] = ()


@dataclass(frozen=True)
class Outer:
    partition: int
    offset: int
    end_offset: int
    is_finished: bool
    fault: Fault | None
    inner: Inner | None
    many: tuple[Inner, ...]
    plain: tuple[Fault, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_mended: bool = False
    size: float | None = None


EPOCH = pa.struct([("epoch", pa.int32()), ("start_offset", pa.int64())])
OUTER = RowCodec(
    Outer,
    columns={"is_finished": "state"},
    shifted={"end_offset": -1},
    values={"is_finished": {True: "FINISHED", False: "STARTED"}, "is_mended": {True: True, False: None}},
    parts={"fault": RowCodec(Fault, columns={"message": "error"})},
    absent={"is_transient": False},
    structs={"inner": RowCodec(Inner, pairs={"epochs": EPOCH}), "many": RowCodec(Inner, pairs={"epochs": EPOCH})},
)
longs = st.integers(-(1 << 62), 1 << 62)
texts = st.text(max_size=5)
faults = st.builds(Fault, texts, st.booleans())


def inners(offset: int) -> st.SearchStrategy[Inner]:
    epochs = st.none() | st.lists(st.tuples(st.integers(0, 9), longs), max_size=2).map(tuple)
    return st.builds(Inner, st.just(offset), epochs, st.lists(st.sampled_from(Colour), max_size=2).map(tuple))


outers = longs.flatmap(
    lambda offset: st.builds(
        Outer,
        st.integers(0, 9),
        st.just(offset),
        longs,
        st.booleans(),
        st.none() | faults,
        st.none() | inners(offset),
        st.lists(longs.flatmap(inners), max_size=2).map(tuple),
        st.lists(faults, max_size=2).map(tuple),
        st.dictionaries(texts, texts, max_size=2),
        st.booleans(),
        st.none() | st.floats(allow_nan=False),
    )
)


@given(st.lists(outers, max_size=4))
def test_codec_gives_back_the_objects_that_a_batch_was_made_of(values: list[Outer]) -> None:
    batch = OUTER.batch(values)
    assert list(OUTER.read([batch.slice(0, 1), batch.slice(1)])) == values


def test_codec_names_and_types_columns_by_the_fields_of_the_dataclass() -> None:
    inner = pa.struct([("offset", pa.int64()), ("epochs", pa.list_(EPOCH)), ("colours", pa.list_(pa.string()))])
    assert {each.name: each.type for each in OUTER.schema} == {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "end_offset": pa.int64(),
        "state": pa.string(),
        "error": pa.string(),
        "is_transient": pa.bool_(),
        "inner": inner,
        "many": pa.list_(inner),
        "plain": pa.list_(pa.struct([("message", pa.string()), ("is_transient", pa.bool_())])),
        "reasons": pa.map_(pa.string(), pa.string()),
        "is_mended": pa.bool_(),
        "size": pa.float64(),
    }


def test_codec_takes_a_field_that_a_struct_lacks_from_the_row_around_it() -> None:
    """As rows of `partitions` have one column `offset` for the structs of all kinds."""
    value = Outer(3, 7, 10, True, None, Inner(7, ((1, 0),)), ())
    narrow = pa.schema([*OUTER.schema]).set(6, pa.field("inner", pa.struct([("epochs", pa.list_(EPOCH))])))
    (row,) = OUTER.batch([value], narrow).to_pylist()
    assert row["inner"] == {"epochs": [{"epoch": 1, "start_offset": 0}]}
    assert (row["end_offset"], row["state"], row["error"], row["is_transient"]) == (9, "FINISHED", None, False)
    assert (row["is_mended"], OUTER.of_row(row)) == (None, value)
