"""A task in a process of its own, for its peak memory: `python -m tests.perf.worker decode|replay|nothing …`."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

from tests.perf.measure import print_peak
from tests.perf.replay_rows import deltas_of
from tiersnap.jobs.pipeline.decoding import WANTED, DecodeSegments
from tiersnap.snapshot.formats.snapshot_file import encode
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir, read_partition
from tiersnap.snapshot.replay.partition_state import ReplayState
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment


def wanted(log_dir: str, most: int | None = None) -> pa.Table:
    """WANTED rows of the partition perf-0: its first `most` segments, or all."""
    listed = open_log_dir(log_dir)
    partition = read_partition(listed.filesystem, f"{log_dir}/perf-0", listed.checkpoints)
    segments = [
        {
            "log_dir": log_dir,
            "topic": "perf",
            "partition": 0,
            "topic_id": partition.topic_id,
            "base_offset": segment.base_offset,
            "next_base_offset": segment.next_base_offset,
            "size_bytes": segment.log.size,
            "modified_ns": segment.log.modified_ns,
            "cuts": [],
        }
        for segment in partition.segments[:most]
    ]
    return pa.Table.from_pylist(segments, schema=WANTED)


def decode(log_dir: str) -> None:
    """The decode task over the whole log, with the CRC checked; the rows go nowhere, as Spark takes them one by one."""
    for _ in DecodeSegments(check_crc=True, run=1)(iter(wanted(log_dir).to_batches())):
        pass


def replay(log_dir: str, producers: str) -> None:
    """Fold one segment, then replay the state of many producers over two boundaries and write both snapshots."""
    listed = open_log_dir(log_dir)
    partition = read_partition(listed.filesystem, f"{log_dir}/perf-0", listed.checkpoints)
    runs, _ = fold_segment(LOCAL, partition.segments[0])
    state = ReplayState(log_start=0)
    state.advance(Run(0, deltas_of(np.arange(int(producers), dtype=np.int64), 0), -1))
    for run in (*runs, *runs):
        state.advance(run)
        encode(state.boundary(1, read_snapshot=lambda _: None).entries)
    state.state(1)


if __name__ == "__main__":
    work, *arguments = sys.argv[1:]
    {"decode": decode, "replay": replay, "nothing": lambda: None}[work](*arguments)
    print_peak()
