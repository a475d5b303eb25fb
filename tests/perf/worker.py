"""A task in a process of its own, for its peak memory: `python -m tests.perf.worker decode|carry|nothing …`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from tests.perf.carry_rows import deltas_of
from tests.perf.measure import print_peak
from tiersnap.snapshot.formats.snapshot_file import encode
from tiersnap.snapshot.log.log_dir import open_log_dir, read_partition
from tiersnap.snapshot.stages.decode import PLAN, DecodeSegments
from tiersnap.snapshot.state.carry import PartitionState
from tiersnap.snapshot.state.replay import Run, fold_segment


def plan_of(log_dir: str, most: int | None = None) -> pa.Table:
    """One task: the first `most` closed segments of the partition perf-0, or all."""
    listed = open_log_dir(log_dir)
    partition = read_partition(listed.filesystem, f"{log_dir}/perf-0", listed.checkpoints)
    segments = [
        {
            "log_dir": log_dir,
            "topic": "perf",
            "partition": 0,
            "cuts": [],
            "base_offset": segment.base_offset,
            "next_base_offset": segment.next_base_offset,
            "size_bytes": segment.log.size,
            "modified_ns": segment.log.modified_ns,
            "is_settled": segment.next_base_offset is not None,
        }
        for segment in partition.segments[:most]
    ]
    return pa.Table.from_pylist([{"segments": segments}], schema=PLAN)


def decode(log_dir: str, keep: str) -> None:
    """The decode task over the whole log, with the CRC checked."""
    with tempfile.TemporaryDirectory(dir=Path(log_dir).parent) as warehouse:
        for _ in DecodeSegments(warehouse, keep == "headers", True, 0)(iter(plan_of(log_dir).to_batches())):
            pass


def carry(log_dir: str, producers: str) -> None:
    """Fold one segment, then carry the state of many producers over two boundaries and write both snapshots."""
    listed = open_log_dir(log_dir)
    partition = read_partition(listed.filesystem, f"{log_dir}/perf-0", listed.checkpoints)
    runs, _ = fold_segment(fs.LocalFileSystem(), partition.segments[0])
    state = PartitionState(log_start=0)
    state.advance(Run(0, deltas_of(np.arange(int(producers), dtype=np.int64), 0), -1))
    for run in (*runs, *runs):
        state.advance(run)
        encode(state.boundary(1, read_snapshot=lambda _: None).entries)
    state.state(1)


if __name__ == "__main__":
    work, *arguments = sys.argv[1:]
    {"decode": decode, "carry": carry, "nothing": lambda: None}[work](*arguments)
    print_peak()
