"""The chunk index of the plugin's manifest, and JSON that nobody sane wrote."""

from __future__ import annotations

import base64
import json
import tracemalloc
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.plugin_compressed import packed_sizes, zstd
from tiersnap.remote_storage.layouts import chunk_index, rsm_manifest
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES
from tiersnap.snapshot.errors import CorruptDataError

pytestmark = pytest.mark.unit


def variable(chunk_size: int, file_size: int, chunks: str) -> dict[str, object]:
    return {
        "type": "variable",
        "originalChunkSize": chunk_size,
        "originalFileSize": file_size,
        "transformedChunks": chunks,
    }


@given(st.lists(st.integers(1, (1 << 31) - 1), min_size=1, max_size=30), st.data())
def test_sizes_are_read_back_and_lie_end_to_end(sizes: list[int], data: st.DataObject) -> None:
    last = data.draw(st.integers(1, 100))
    index = chunk_index.decode(variable(100, 100 * (len(sizes) - 1) + last, packed_sizes(sizes)))
    assert [chunk.size for chunk in index.chunks()] == sizes
    assert [chunk.position for chunk in index.chunks()] == [0, *accumulate(sizes)][:-1]
    assert [chunk.original_size for chunk in index.chunks()] == [100] * (len(sizes) - 1) + [last]
    assert index.object_size == sum(sizes)


# Written out by hand from the format, before zstd and base64.
@pytest.mark.parametrize(
    ("raw", "sizes"),
    [
        ("00000001 00000064", [100]),
        ("00000002 0000000a 01 00 00000014", [10, 20]),
        ("00000003 0000000a 02 0000 0400 00000001", [10, 10 + 1024, 1]),
    ],
)
def test_the_bytes_are_those_of_the_plugin(raw: str, sizes: list[int]) -> None:
    packed = base64.b64encode(zstd(bytes.fromhex(raw))).decode()
    index = chunk_index.decode(variable(100, 100 * len(sizes), packed))
    assert [chunk.size for chunk in index.chunks()] == sizes


@pytest.mark.parametrize(
    "chunks",
    [
        "",
        "!!",
        base64.b64encode(b"not zstd").decode(),
        packed_sizes([1, 2]),
        packed_sizes([1, 2, 3, 4]),
        base64.b64encode(zstd(bytes.fromhex("00000003 00000001 05 00"))).decode(),
        base64.b64encode(zstd(bytes.fromhex("00000003 00000001 01 0000 00000000"))).decode(),
        base64.b64encode(zstd(bytes.fromhex("00000003 00000001 01 0000 00000001 00"))).decode(),
        base64.b64encode(zstd(bytes(1 << 24))).decode(),
    ],
)
def test_sizes_that_are_none_are_an_error(chunks: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        chunk_index.decode(variable(100, 300, chunks))


def test_two_thousand_million_chunks_of_a_fixed_index_cost_nothing() -> None:
    found = {
        "type": "fixed",
        "originalChunkSize": 1,
        "originalFileSize": (1 << 31) - 1,
        "transformedChunkSize": 1,
        "finalTransformedChunkSize": 1,
    }
    assert chunk_index.decode(found).object_size == (1 << 31) - 1
    with pytest.raises(ValueError, match="chunks"):
        chunk_index.decode(variable(1, (1 << 31) - 1, packed_sizes([1])))


def test_a_chunk_holds_as_many_bytes_as_it_should() -> None:
    assert b"".join(chunk_index.decompress(zstd(b"12345"), 5)) == b"12345"
    for data in (zstd(b"1234"), zstd(b"123456"), zstd(bytes(1 << 24)), b"", b"12345", zstd(b"12345")[:-1]):
        with pytest.raises(ValueError, match=r"."):
            b"".join(chunk_index.decompress(data, 5))


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": 1.5}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b"null",
        b"",
    ],
)
def test_json_that_is_no_manifest_is_corrupt_data(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="some/key") as caught:
        rsm_manifest.decode(data, name="some/key")
    assert len(caught.value.message) < 200


def test_json_above_the_limit_is_not_parsed() -> None:
    with pytest.raises(CorruptDataError, match="more than the limit"):
        rsm_manifest.decode(json.dumps({"a": "x" * MANIFEST_BYTES}).encode(), name="m")


def test_zstd_is_a_codec_of_the_pyarrow_that_is_installed() -> None:
    assert pa.Codec.is_available("zstd")


def test_decompress_holds_a_few_pieces_when_a_small_chunk_claims_much():
    size = 256 << 20
    data = zstd(bytes(size))
    assert len(data) < 64 << 10
    tracemalloc.start()
    try:
        assert sum(map(len, chunk_index.decompress(data, size))) == size
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
