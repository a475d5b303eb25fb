"""A record_batches table as the decode writes it: one file holds many segments, a row group belongs to one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from pyarrow import fs
from tiersnap.snapshot.delta_rows import batches_to_table, writable
from tiersnap.snapshot.table_file import TableFile

from tests.perf.make_log import START_TIME
from tests.perf.scale import DATA
from tiersnap.snapshot import tables
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE

SEGMENT_ROWS = 250_000
SEGMENTS_PER_FILE = 8
PRODUCERS = 20_000
_ROW_GROUP_ROWS = 131_072
_NAME = "record_batches"


def made(rows: int) -> Path:
    """Folder with the table's files, made if it is not there."""
    folder = DATA / f"table-{rows}"
    done = folder / "made.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        files = _make(rows, folder)
        done.write_text(json.dumps(files))
    return folder / _NAME


def batch_rows(rows: int, base_offset: int, seed: int) -> np.ndarray:
    """Decoded batches of one record each by PRODUCERS producers, one in a hundred a marker."""
    random = np.random.default_rng(seed)
    out = np.zeros(rows, RECORD_BATCH_DTYPE)
    offsets = base_offset + np.arange(rows)
    is_marker = offsets % 100 == 99
    out["position"] = np.cumsum(np.full(rows, 300)) - 300
    out["base_offset"] = offsets
    out["batch_length"] = 288
    out["magic"] = 2
    out["crc"] = random.integers(0, 1 << 32, rows)
    out["attributes"] = np.where(is_marker, 0x30, np.where(offsets % 100 == 98, 0x10, 0))
    out["base_timestamp"] = out["max_timestamp"] = START_TIME + offsets
    out["producer_id"] = random.integers(0, PRODUCERS, rows)
    out["producer_id"][1:][is_marker[1:]] = out["producer_id"][:-1][is_marker[1:]]
    out["base_sequence"] = np.where(is_marker, -1, offsets & 0x7FFFFFFF)
    out["record_count"] = 1
    out["control_type"] = np.where(is_marker, 1, -1)
    out["coordinator_epoch"] = np.where(is_marker, 7, -1)
    out["control_timestamp"] = np.where(is_marker, START_TIME + offsets, -1)
    return out


def _make(rows: int, folder: Path) -> list[str]:
    files = []
    bases = range(0, rows, SEGMENT_ROWS)
    for first in range(0, len(bases), SEGMENTS_PER_FILE):
        file = TableFile(fs.LocalFileSystem(), str(folder), _NAME, writable(tables.RECORD_BATCHES))
        for base in bases[first : first + SEGMENTS_PER_FILE]:
            segment = batch_rows(min(SEGMENT_ROWS, rows - base), base, base)
            identity = {"log_dir": "/logs", "topic": "perf", "partition": 0, "segment_base_offset": base}
            for start in range(0, segment.size, _ROW_GROUP_ROWS):
                group = segment[start : start + _ROW_GROUP_ROWS]
                file.write(batches_to_table(group, identity, tables.RECORD_BATCHES))
        written = file.close()
        assert written is not None
        files.append(str(written["path"]))
    return files
