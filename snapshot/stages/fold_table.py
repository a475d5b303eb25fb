"""The fold of record_batches for whoever has the table and not the log: Parquet files in, producer deltas out.

Rows that come to a task through Spark cost ten times the fold itself, so a task is given paths, reads the eleven
columns that the fold needs with pyarrow and folds them where they lie. Files are as DecodeSegments writes them: a row
group belongs to one segment, the segments of a file are whole and follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tiersnap.snapshot import tables
from tiersnap.snapshot.delta_rows import deltas_to_table
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.kernels.fold import FoldedColumns
from tiersnap.snapshot.log.log_dir import resolve
from tiersnap.snapshot.state.producer_state import ProducerFold

FILES = pa.schema([("path", pa.string())])  # inside the table's folder
IDENTITY = ("log_dir", "topic", "partition", "segment_base_offset")


@dataclass(frozen=True)
class FoldTable:
    """FILES rows -> PRODUCER_DELTAS rows, one run a segment; `table` is the URI of the table's folder."""

    table: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold the files of each row."""
        filesystem, folder = resolve(self.table)
        for batch in batches:
            for path in batch.column("path").to_pylist():
                for identity, deltas in fold_file(filesystem, f"{folder.rstrip('/')}/{path}"):
                    run = {**identity, "run_offset": identity["segment_base_offset"]}
                    table = deltas_to_table(deltas, run, tables.PRODUCER_DELTAS)
                    yield from table.cast(tables.PRODUCER_DELTAS).to_batches()


def fold_file(filesystem: fs.FileSystem, path: str) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """(IDENTITY values, deltas in ascending producer id) of each segment in a file of record_batches.

    Raises:
        UsageError: a row group holds rows of more than one segment, or the statistics do not say of which.
    """
    with pq.ParquetFile(filesystem.open_input_file(path)) as file:
        columns = {file.schema_arrow.names[index]: index for index in range(len(file.schema_arrow.names))}
        current: dict[str, object] | None = None
        producers = ProducerFold()
        for group in range(file.num_row_groups):
            identity = _identity(file, group, columns, path)
            if current is not None and identity != current:
                yield current, producers.deltas()
                producers = ProducerFold()
            current = identity
            producers.add_columns(_read(file, group))
        if current is not None:
            yield current, producers.deltas()


def _identity(file: pq.ParquetFile, group: int, columns: dict[str, int], path: str) -> dict[str, object]:
    """The segment a row group belongs to, from its statistics."""
    metadata = file.metadata.row_group(group)
    identity = {}
    for name in IDENTITY:
        statistics = metadata.column(columns[name]).statistics
        if statistics is None or not statistics.has_min_max or statistics.min != statistics.max:
            raise UsageError(
                f"{path}: row group {group} is not of one segment by the statistics of {name}",
                hint="files that no tiersnap decode wrote are for snapshot.spark.transforms.fold",
            )
        identity[name] = statistics.min
    return identity


def _read(file: pq.ParquetFile, group: int) -> FoldedColumns:
    names = FoldedColumns._fields
    table = file.read_row_group(group, columns=list(names), use_threads=False)
    return FoldedColumns(*(table.column(name).combine_chunks().to_numpy() for name in names))
