"""Logs for benchmarks: valid batches with valid CRCs, at the speed of the disk. Made once, kept below scale.DATA.

A block is BLOCK - 1 data batches of one size, one record each, then the marker that commits the transaction which the
last of them belongs to; so one batch in a hundred is a marker of 78 bytes. Producers are drawn at random.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numba
import numpy as np

from tests.perf.scale import DATA
from tiersnap.snapshot.formats.record_batch import (
    CONTROL_MASK,
    CRC_START,
    HEADER_LENGTH,
    LOG_OVERHEAD,
    TRANSACTIONAL_MASK,
)
from tiersnap.snapshot.kernels.compiler import jitted
from tiersnap.snapshot.kernels.crc import checksum

BLOCK = 100
TOPIC_ID = "a1b2c3d4e5f6g7h8i9j0kA"
START_TIME = 1_795_000_000_000
_PIECE_BYTES = 64 << 20
_MARKER_RECORD = bytes([32, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 7, 0])
_SMALL = 64  # bytes: lengths up to there take one byte each
_SMALL_OVERHEAD, _VALUE_OVERHEAD = 7, 9  # of a record whose lengths take one byte or two each


@dataclass(frozen=True)
class LogShape:
    """What a log looks like; equal shapes are equal files.

    Attributes:
        batch_bytes: of a data batch, 70 to 120 or 201 to 8000.
        size: bytes of the whole log, about.
        segment_bytes: a segment is closed at the first block that reaches this.
    """

    batch_bytes: int
    size: int
    segment_bytes: int
    producers: int = 1000
    partitions: int = 1

    @property
    def name(self) -> str:
        return f"log-{self.batch_bytes}-{self.size}-{self.segment_bytes}-{self.producers}-{self.partitions}"

    @property
    def block_bytes(self) -> int:
        return (BLOCK - 1) * self.batch_bytes + HEADER_LENGTH + len(_MARKER_RECORD)


@dataclass(frozen=True)
class MadeLog:
    """A log directory (with partitions `perf-0`, …) and what is in it."""

    path: str
    batches: int
    size: int
    segments: int

    @property
    def partition(self) -> Path:
        """Folder of the first partition."""
        return Path(self.path) / "perf-0"


def made(shape: LogShape) -> MadeLog:
    """The log of this shape, made if it is not there."""
    folder = DATA / shape.name
    done = folder / "made.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        log = _make(shape, folder / "logs")
        done.write_text(json.dumps(asdict(log)))
    return MadeLog(**{**json.loads(done.read_text()), "path": str(folder / "logs")})


def batch_dtype(records_bytes: int) -> np.dtype:
    """A batch on disk with so many bytes of records."""
    return np.dtype(
        [
            ("base_offset", ">i8"),
            ("batch_length", ">i4"),
            ("partition_leader_epoch", ">i4"),
            ("magic", "i1"),
            ("crc", ">u4"),
            ("attributes", ">i2"),
            ("last_offset_delta", ">i4"),
            ("base_timestamp", ">i8"),
            ("max_timestamp", ">i8"),
            ("producer_id", ">i8"),
            ("producer_epoch", ">i2"),
            ("base_sequence", ">i4"),
            ("record_count", ">i4"),
            ("records", "u1", (records_bytes,)),
        ]
    )


def _varint(value: int) -> bytes:
    raw, out = value << 1, bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    return bytes([*out, raw])


def _record(size: int) -> bytes:
    value = size - (_SMALL_OVERHEAD if size < _SMALL else _VALUE_OVERHEAD)
    content = np.random.default_rng(value).integers(0, 256, value, np.uint8).tobytes()
    record = _varint(size - 2) + bytes([0, 0, 0, 1]) + _varint(value) + content + b"\0"
    assert len(record) == size
    return record


class BlockWriter:
    """Blocks of batches in the order of the log; the same array is filled again and again."""

    def __init__(self, shape: LogShape, seed: int = 1) -> None:
        records = shape.batch_bytes - HEADER_LENGTH
        self._kind = np.dtype(
            [("data", batch_dtype(records), (BLOCK - 1,)), ("marker", batch_dtype(len(_MARKER_RECORD)))]
        )
        assert self._kind.itemsize == shape.block_bytes
        most = max(1, _PIECE_BYTES // self._kind.itemsize)
        self._blocks = np.zeros(most, self._kind)
        data, marker = self._blocks["data"], self._blocks["marker"]
        data["records"] = np.frombuffer(_record(records), np.uint8)
        marker["records"] = np.frombuffer(_MARKER_RECORD, np.uint8)
        data["attributes"][:, -1] = TRANSACTIONAL_MASK
        marker["attributes"] = CONTROL_MASK | TRANSACTIONAL_MASK
        for part in (data, marker):
            part["batch_length"] = part.dtype.itemsize - LOG_OVERHEAD
            part["magic"] = 2
            part["record_count"] = 1
        marker["base_sequence"] = -1
        self._random = np.random.default_rng(seed)
        self._producers = shape.producers

    def fill(self, blocks: int, offset: int) -> np.ndarray:
        """Bytes of at most `blocks` blocks from `offset` on, valid until the next call."""
        out = self._blocks[:blocks]
        data, marker = out["data"], out["marker"]
        offsets = offset + np.arange(out.size * BLOCK, dtype=np.int64).reshape(-1, BLOCK)
        ids = self._random.integers(0, self._producers, (out.size, BLOCK - 1)) * 1000
        data["base_offset"], marker["base_offset"] = offsets[:, :-1], offsets[:, -1]
        for name in ("base_timestamp", "max_timestamp"):
            data[name], marker[name] = START_TIME + offsets[:, :-1], START_TIME + offsets[:, -1]
        data["producer_id"], marker["producer_id"] = ids, ids[:, -1]
        data["base_sequence"] = offsets[:, :-1] & 0x7FFFFFFF
        flat = out.view(np.uint8)
        _sign(flat, out.size, data.dtype.itemsize, marker.dtype.itemsize)
        return flat


_checksum = jitted(checksum.function)


@numba.njit
def _sign(buffer: np.ndarray, blocks: int, data_bytes: int, marker_bytes: int) -> None:
    position = 0
    for _ in range(blocks):
        for index in range(BLOCK):
            size = data_bytes if index < BLOCK - 1 else marker_bytes
            crc = _checksum(buffer, position + CRC_START, size - CRC_START)
            for byte in range(4):
                buffer[position + 17 + byte] = (crc >> np.uint32(8 * (3 - byte))) & np.uint32(0xFF)
            position += size


def _make(shape: LogShape, folder: Path) -> MadeLog:
    writer = BlockWriter(shape)
    batches = size = segments = 0
    ends = []
    for partition in range(shape.partitions):
        path = folder / f"perf-{partition}"
        path.mkdir(parents=True)
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
        (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        offset = written = 0
        while written < shape.size // shape.partitions:
            added = write_segment(shape, writer, path, offset)
            offset += added
            written += added // BLOCK * shape.block_bytes
            segments += 1
        batches, size = batches + offset, size + written
        ends.append(f"perf {partition} {offset}\n")
    # A high watermark, without which nothing may be tiered.
    (folder / "replication-offset-checkpoint").write_text(f"0\n{len(ends)}\n{''.join(ends)}")
    return MadeLog(str(folder), batches, size, segments)


def write_segment(shape: LogShape, writer: BlockWriter, partition: Path, base: int) -> int:
    """Write the segment that begins at `base`; returns its batches, which are its offsets."""
    blocks = -(-shape.segment_bytes // shape.block_bytes)
    left = blocks
    with (partition / f"{base:020d}.log").open("wb") as file:
        while left:
            piece = writer.fill(left, base + (blocks - left) * BLOCK)
            file.write(memoryview(piece))
            left -= piece.size // shape.block_bytes
    return blocks * BLOCK


def append_segment(shape: LogShape, partition: Path) -> None:
    """One segment more of a folder, at the end."""
    base = max(int(path.stem) for path in partition.glob("*.log"))
    held = (partition / f"{base:020d}.log").stat().st_size // shape.block_bytes * BLOCK
    write_segment(shape, BlockWriter(shape, seed=2), partition, base + held)


if __name__ == "__main__":
    append_segment(LogShape(**json.loads(sys.argv[1])), Path(sys.argv[2]))
