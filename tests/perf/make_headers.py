"""Decoded batch headers for the loops that `bench-check` measures."""

from __future__ import annotations

import numpy as np

from tests.perf.make_log import START_TIME
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE


def batch_rows(rows: int, producers: int, *, seed: int) -> np.ndarray:
    """RECORD_BATCH_DTYPE: batches of one record each by so many producers, one in a hundred a marker."""
    random = np.random.default_rng(seed)
    out = np.zeros(rows, RECORD_BATCH_DTYPE)
    offsets = np.arange(rows)
    is_marker = offsets % 100 == 99
    out["position"] = np.cumsum(np.full(rows, 300)) - 300
    out["base_offset"] = offsets
    out["batch_length"] = 288
    out["magic"] = 2
    out["crc"] = random.integers(0, 1 << 32, rows)
    out["attributes"] = np.where(is_marker, 0x30, np.where(offsets % 100 == 98, 0x10, 0))
    out["base_timestamp"] = out["max_timestamp"] = START_TIME + offsets
    out["producer_id"] = random.integers(0, producers, rows)
    out["producer_id"][1:][is_marker[1:]] = out["producer_id"][:-1][is_marker[1:]]
    out["base_sequence"] = np.where(is_marker, -1, offsets & 0x7FFFFFFF)
    out["record_count"] = 1
    out["control_type"] = np.where(is_marker, 1, -1)
    out["coordinator_epoch"] = np.where(is_marker, 7, -1)
    out["control_timestamp"] = np.where(is_marker, START_TIME + offsets, -1)
    return out
