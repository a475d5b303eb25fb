"""Decompress the records of a batch.

The batch's attributes contain the codec:

    0 none   1 gzip   2 snappy   3 lz4 (frame format)   4 zstd

With snappy, some clients write one snappy block and nothing else. Clients that use snappy-java write blocks in a frame:

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
_HINT = "to see the batch: tiersnap dump FILE; another replica may have this batch undamaged"


def decompress(codec: int, data: bytes, *, largest: int = LARGEST) -> bytes:
    """Return the decompressed records of a batch.

    Args:
        codec: the lowest three bits of the batch's attributes.
        largest: limit in bytes for the result; a larger result is treated as damage.

    Raises:
        CorruptRecordError: the codec is unknown, `data` is not of that codec, or the result is larger than `largest`.
    """
    if codec == NONE:
        return data
    try:
        if codec == SNAPPY:
            return _snappy(data, largest)
        if codec in _STREAMS:
            return _bounded(first_bytes(data, _STREAMS[codec], largest + 1), largest)
    except (OSError, ValueError, struct.error) as error:
        raise CorruptRecordError(f"the records of the batch cannot be decompressed: {error}", hint=_HINT) from error
    raise CorruptRecordError(f"the compression codec is {codec}, expected 0 to 4", hint=_HINT)


def first_bytes(data: bytes, codec: Codec, most: int) -> bytes:
    """Return the first `most` decompressed bytes of `data`, or all of them if there are fewer.

    Raises:
        OSError: `data` is not of that codec.
    """
    return b"".join(pieces(data, codec, most))


def pieces(data: bytes, codec: Codec, most: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of `data` in pieces of at most 1 MiB. Stop after `most` bytes.

    Raises:
        OSError: `data` is not of that codec.
    """
    # Not stream.read(most): if the data is damaged, pyarrow never frees the buffer for the result.
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
            left = len(data) - position
            raise ValueError(
                f"snappy block at byte {position - 4}: length is {count_of(length, 'byte')}, but {left} are left"
            )
        blocks.append(_snappy_block(data[position : position + length], largest))
        size += len(blocks[-1])
        if size > largest:
            raise ValueError(f"more than {largest} bytes")
        position += length
    return b"".join(blocks)


def _snappy_block(data: bytes, largest: int) -> bytes:
    """Decompress one block. Its first field, a varint, is the decompressed length, which pyarrow needs."""
    length = 0
    for index, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    if length > largest:
        raise ValueError(f"more than {largest} bytes")
    import pyarrow as pa

    return bytes(pa.Codec("snappy").decompress(data, length, asbytes=True))
