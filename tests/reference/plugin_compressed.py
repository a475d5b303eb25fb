"""A remote segment as the Aiven plugin stores it with `compression.enabled`: made by hand, from the plugin's source."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pyarrow as pa


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def packed_sizes(sizes: list[int]) -> str:
    """ChunkSizesBinaryCodec.encode, then what ChunkSizesSerializer makes of it."""
    data = struct.pack(">i", len(sizes))
    if len(sizes) == 1:
        data += struct.pack(">i", sizes[0])
    elif len(sizes) > 1:
        base = min(sizes[:-1])
        largest = max(size - base for size in sizes[:-1])
        width = max(1, (largest.bit_length() + 7) // 8)
        data += struct.pack(">ib", base, width)
        data += b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
        data += struct.pack(">i", sizes[-1])
    return base64.b64encode(zstd(data)).decode("ascii")


def compress_copy(manifest: Path, chunk_size: int) -> Path:
    """Turn an uncompressed copy into a compressed one; returns the log object."""
    log = manifest.with_suffix(".log")
    data = log.read_bytes()
    chunks = [zstd(data[at : at + chunk_size]) for at in range(0, len(data), chunk_size)]
    log.write_bytes(b"".join(chunks))
    said = json.loads(manifest.read_text())
    said["compression"] = True
    said["chunkIndex"] = {
        "type": "variable",
        "originalChunkSize": chunk_size,
        "originalFileSize": len(data),
        "transformedChunks": packed_sizes([len(chunk) for chunk in chunks]),
    }
    manifest.write_text(json.dumps(said))
    return log
