"""Stage 1: list partition folders. One plan row a task; many folders a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition, resolve
from tiersnap.snapshot.partition_rows import PARTITIONS, to_row, to_table

PLAN = pa.schema([("log_dir", pa.string()), ("folders", pa.list_(pa.string()))])


@dataclass(frozen=True)
class ListPartitions:
    """PLAN rows -> PARTITIONS rows; `checkpoints` by log directory URI."""

    checkpoints: dict[str, Checkpoints]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List the folders of each plan row."""
        for batch in batches:
            for plan in batch.to_pylist():
                filesystem, path = resolve(plan["log_dir"])
                known = self.checkpoints[plan["log_dir"]]
                partitions = (
                    read_partition(filesystem, f"{path.rstrip('/')}/{folder}", known) for folder in plan["folders"]
                )
                # Also those without a segment: their findings, such as a folder that may not be read, must be heard.
                rows = [to_row(plan["log_dir"], partition) for partition in partitions]
                yield from to_table(rows, PARTITIONS).to_batches()
