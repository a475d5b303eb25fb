"""A log of segments as large as brokers have them on a disk that could not hold it: batches of zeros, which are holes.

Whoever reads it gets every byte, and the CRCs are right; only the headers take room, a page each. The segments differ
in their offsets alone, which no CRC covers.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.perf.make_log import START_TIME, TOPIC_ID, MadeLog, batch_dtype
from tests.perf.scale import DATA, MIB
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.record_batch import CRC_START, HEADER_LENGTH, LOG_OVERHEAD

BATCH_BYTES = MIB


@dataclass(frozen=True)
class SparseShape:
    """Equal shapes are equal files."""

    segments: int
    segment_bytes: int
    producers: int = 1000

    @property
    def batches(self) -> int:
        """Of one segment."""
        return self.segment_bytes // BATCH_BYTES


def made(shape: SparseShape) -> MadeLog:
    """The log of this shape, made if it is not there."""
    folder = DATA / f"sparse-{shape.segments}-{shape.segment_bytes}-{shape.producers}"
    done = folder / "made"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        path = folder / "logs" / "perf-0"
        path.mkdir(parents=True)
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
        (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        headers = _headers(shape)
        for segment in range(shape.segments):
            _write(shape, headers, path, segment)
        done.touch()
    return MadeLog(
        str(folder / "logs"), shape.segments * shape.batches, shape.segments * shape.segment_bytes, shape.segments
    )


def append_segment(shape: SparseShape, partition: Path) -> None:
    """One segment more, at the end."""
    newest = max(partition.glob("*.log"))
    _write(shape, _headers(shape), partition, int(newest.stem) // shape.batches + 1)


def _headers(shape: SparseShape) -> np.ndarray:
    headers = np.zeros(shape.batches, batch_dtype(0))
    assert headers.itemsize == HEADER_LENGTH
    number = np.arange(shape.batches)
    headers["batch_length"] = BATCH_BYTES - LOG_OVERHEAD
    headers["magic"] = 2
    headers["base_timestamp"] = headers["max_timestamp"] = START_TIME + number
    headers["producer_id"] = number % shape.producers * 1000
    headers["base_sequence"] = number // shape.producers
    headers["record_count"] = 1
    batch = bytearray(BATCH_BYTES)
    for header in headers:
        batch[:HEADER_LENGTH] = header.tobytes()
        header["crc"] = crc32c(memoryview(batch)[CRC_START:])
    return headers


def _write(shape: SparseShape, headers: np.ndarray, partition: Path, segment: int) -> None:
    base = segment * shape.batches
    headers["base_offset"] = base + np.arange(shape.batches)
    with (partition / f"{base:020d}.log").open("wb") as file:
        for index in range(shape.batches):
            file.seek(index * BATCH_BYTES)
            file.write(headers[index].tobytes())
        file.truncate(shape.batches * BATCH_BYTES)
