"""The `chunkIndex` of the Aiven plugin's manifest: the positions of a remote segment's chunks.

The plugin cuts a segment file into chunks of `originalChunkSize` bytes; the last chunk may be shorter. It transforms
each chunk separately: compressed with zstd, encrypted, both, or unchanged. The log object is the concatenation of the
transformed chunks.

    type "fixed"      finalTransformedChunkSize is the size of the last chunk, transformedChunkSize that of all others
    type "variable"   transformedChunks: base64 of zstd of the transformed sizes, numbers big-endian:
                          int32 count
                          count 1:  int32 the size
                          else:     int32 base, int8 width (1 to 4), count - 1 numbers of `width` bytes that are added
                                    to base, int32 the last size

Follows io.aiven.kafka.tieredstorage.manifest.index.FixedSizeChunkIndex, VariableSizeChunkIndex and
serde.ChunkSizesBinaryCodec.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tiersnap.snapshot.formats.compression import first_bytes, pieces
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.units import count_of

MAX_CHUNK_SIZE = (1 << 30) - 1
MAX_FILE_SIZE = (1 << 31) - 1  # a Java int
Size = Annotated[int, Meta(ge=1, le=MAX_FILE_SIZE)]
_INT = struct.Struct(">i")
_MOST_SIZES = 1 << 22
_SHOWN = 200  # characters of an error
_LARGEST_OVERHEAD = 64 + 9  # bytes besides the sizes: header fields, and a margin


@dataclass(frozen=True, slots=True)
class Chunk:
    """The position and size of a chunk in the log object, and its size in the segment file, in bytes."""

    position: int
    size: int
    original_size: int


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The sizes of a segment's chunks, in bytes."""

    original_chunk_size: int  # size of each chunk except the last, in the segment file
    file_size: int  # size of the segment file
    count: int  # number of chunks
    # Sizes of the transformed chunks. A "fixed" index with several chunks has two sizes, the second for the last chunk.
    transformed: tuple[int, ...]

    @property
    def object_size(self) -> int:
        """Return the size of the log object in bytes."""
        if len(self.transformed) == self.count:
            return sum(self.transformed)
        return self.transformed[0] * (self.count - 1) + self.transformed[-1]

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks in the order of the segment file."""
        position = 0
        for number in range(self.count):
            is_last = number == self.count - 1
            size = self.transformed[-1 if is_last else min(number, len(self.transformed) - 2)]
            original = self.original_chunk_size
            if is_last:
                original = self.file_size - number * self.original_chunk_size
            yield Chunk(position, size, original)
            position += size


class _Chunks(Struct, rename="camel", tag_field="type"):
    original_chunk_size: Annotated[int, Meta(ge=1, le=MAX_CHUNK_SIZE)]
    original_file_size: Size


class _FixedChunks(_Chunks, tag="fixed"):
    transformed_chunk_size: Size
    final_transformed_chunk_size: Size


class _VariableChunks(_Chunks, tag="variable"):
    transformed_chunks: str


for _form in (_FixedChunks, _VariableChunks):
    decoder(_form)  # makes msgspec collect the types now, before the first `convert`


def decode(found: object) -> ChunkIndex:
    """Return the chunk index from a manifest's decoded JSON.

    Raises:
        ValueError: the JSON is not a chunk index, or contradicts itself.
    """
    try:
        form = msgspec.convert(found, _FixedChunks | _VariableChunks)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)[:_SHOWN]) from error  # the message may repeat very long input
    chunk_size, file_size = form.original_chunk_size, form.original_file_size
    count = -(-file_size // chunk_size)
    if isinstance(form, _VariableChunks):
        return ChunkIndex(chunk_size, file_size, count, tuple(_sizes(form.transformed_chunks, count)))
    last = form.final_transformed_chunk_size
    if count == 1:
        return ChunkIndex(chunk_size, file_size, count, (last,))
    return ChunkIndex(chunk_size, file_size, count, (form.transformed_chunk_size, last))


def decompress(data: bytes, size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of `data` (zstd) in pieces of at most 1 MiB.

    Args:
        size: number of decompressed bytes.

    Raises:
        ValueError: `data` is not zstd, or has another number of decompressed bytes.
    """
    found = 0
    try:
        for piece in pieces(data, "zstd", size + 1):
            found += len(piece)
            if found > size:
                raise ValueError(f"the decompressed data has more than the expected {count_of(size, 'byte')}")
            yield piece
    except OSError as error:
        raise ValueError(f"not zstd: {error}") from error
    if found < size:
        raise ValueError(f"the decompressed data has {found} of the expected {count_of(size, 'byte')}")


def _sizes(encoded: str, count: int) -> list[int]:
    if count > _MOST_SIZES:
        raise ValueError(f"the segment has {count} chunks, but tiersnap reads at most {_MOST_SIZES}")
    packed = base64.b64decode(encoded, validate=True)
    try:
        data = first_bytes(packed, "zstd", 4 * count + _LARGEST_OVERHEAD)
    except OSError as error:
        raise ValueError(f"the chunk sizes are not zstd: {error}") from error
    try:
        (found,) = _INT.unpack_from(data)
        if found != count:
            raise ValueError(f"the manifest has {found} chunk sizes, but the segment has {count} chunks")
        if count == 1:
            sizes, end = [_INT.unpack_from(data, 4)[0]], 8
        else:
            base, width = struct.unpack_from(">ib", data, 4)
            end = 9 + (count - 1) * width
            if not 1 <= width <= 4 or end + 4 > len(data):
                raise ValueError(
                    f"the manifest stores {count} chunk sizes, {count_of(width, 'byte')} each, in "
                    f"{count_of(len(data), 'byte')}: this is not possible"
                )
            added = (data[at : at + width] for at in range(9, end, width))
            sizes = [base + int.from_bytes(each, "big") for each in added]
            sizes.append(_INT.unpack_from(data, end)[0])
            end += 4
    except struct.error as error:
        raise ValueError(f"the chunk sizes end after {count_of(len(data), 'byte')}") from error
    if end != len(data) or min(sizes) < 1 or max(sizes) > MAX_FILE_SIZE:
        raise ValueError("the manifest has chunk sizes that no plugin writes")
    return sizes
