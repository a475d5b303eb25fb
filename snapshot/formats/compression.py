"""Decompressing the records of a batch, by the codec in its attributes.

    0 none   1 gzip   2 snappy   3 lz4 (frame format)   4 zstd

snappy-java frames its blocks, where other clients write one bare block:

    off len type    field
      0   8 bytes   82 53 4e 41 50 50 59 00
      8   4 int32   version
     12   4 int32   lowest compatible version
     16       blocks: int32 length, that many bytes of one snappy block

Follows org.apache.kafka.common.compress.Compression (magic 2).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.units import count_of

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
# Bytes. Coordinators write far smaller batches (message.max.bytes), and a host's memory is far larger.
LARGEST = 256 << 20

_PIECE = 1 << 20
Codec = Literal["gzip", "lz4", "zstd"]
_STREAMS: dict[int, Codec] = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_SNAPPY_JAVA = b"\x82SNAPPY\x00"
_SNAPPY_JAVA_HEADER = 16
_HINT = "tiersnap dump FILE shows the batch; another replica may hold a good one"


def decompress(codec: int, data: bytes, *, largest: int = LARGEST) -> bytes:
    """Decompress the bytes of the records.

    Args:
        codec: the lowest three bits of a batch's attributes.
        largest: bytes; more is taken for damage.

    Raises:
        CorruptRecordError: an unknown codec, data that is not of that codec, or more than `largest`.
    """
    if codec == NONE:
        return data
    try:
        if codec == SNAPPY:
            return _snappy(data, largest)
        if codec in _STREAMS:
            return _bounded(first_bytes(data, _STREAMS[codec], largest + 1), largest)
    except (OSError, ValueError, struct.error) as error:
        raise CorruptRecordError(f"records cannot be decompressed: {error}", hint=_HINT) from error
    raise CorruptRecordError(f"compression codec expected 0 to 4, found {codec}", hint=_HINT)


def first_bytes(data: bytes, codec: Codec, most: int) -> bytes:
    """Decompress at most the first `most` bytes of `data`.

    Raises:
        OSError: `data` is not of that codec.
    """
    return b"".join(pieces(data, codec, most))


def pieces(data: bytes, codec: Codec, most: int) -> Iterator[bytes]:
    """Yield the decompressed bytes in pieces of at most 1 MiB, `most` bytes altogether.

    Raises:
        OSError: it is not of that codec.
    """
    # Not stream.read(most): if the data is wrong, pyarrow never gives back the room that it took for the answer.
    import pyarrow as pa

    piece, left = bytearray(min(most, _PIECE)), most
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while left and (count := stream.readinto(memoryview(piece)[:left])):
            left -= count
            yield bytes(memoryview(piece)[:count])


def _bounded(data: bytes, largest: int) -> bytes:
    if len(data) > largest:
        raise ValueError(f"more than {largest} bytes")
    return data


def _snappy(data: bytes, largest: int) -> bytes:
    if not data.startswith(_SNAPPY_JAVA):
        return _snappy_block(data, largest)
    blocks, size, position = [], 0, _SNAPPY_JAVA_HEADER
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise ValueError(f"a snappy block of {count_of(length, 'byte')}, {len(data) - position} are left")
        blocks.append(_snappy_block(data[position : position + length], largest))
        size += len(blocks[-1])
        if size > largest:
            raise ValueError(f"more than {largest} bytes")
        position += length
    return b"".join(blocks)


def _snappy_block(data: bytes, largest: int) -> bytes:
    """Decompress one block; its first field is its length, which the codec needs as an argument."""
    length = 0
    for index, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    if length > largest:
        raise ValueError(f"more than {largest} bytes")
    import pyarrow as pa

    return bytes(pa.Codec("snappy").decompress(data, length, asbytes=True))
