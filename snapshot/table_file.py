"""Parquet files that tasks write into a table's folder and the driver then commits.

Rows that go through the JVM to a Delta writer cost ten times the fold itself, so a task writes its file with pyarrow
and reports what a Delta add action needs: path, bytes, rows, and the least and greatest key values for skipping.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

WRITTEN_FILE = pa.struct(
    [
        ("table", pa.string()),
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("stats", pa.string()),
    ]
)
_STATS_COLUMNS = ("log_dir", "topic", "partition", "segment_base_offset", "base_offset", "run_offset")
# Offsets, times and sequences ascend or nearly so: their differences take a few bits, where a dictionary of them would
# be built for nothing. Checksums are random, so compressing them is for nothing, too.
_NEARLY_ASCENDING = frozenset(
    (
        *("position", "base_offset", "batch_length", "base_timestamp", "max_timestamp", "base_sequence"),
        *("last_offset", "timestamp", "txn_first_offset", "plain_offset", "error_offset", "last_sequence"),
    )
)
_RANDOM = frozenset(("crc",))


@dataclass
class TableFile:
    """One Parquet file of a table, written row group by row group."""

    filesystem: fs.FileSystem
    folder: str
    table: str
    schema: pa.Schema
    name: str = field(default_factory=lambda: f"part-{uuid.uuid4()}.parquet")
    row_count: int = 0
    row_groups: int = 0

    def __post_init__(self) -> None:
        """Create the folder; the file itself comes with the first row group."""
        self._writer: pq.ParquetWriter | None = None
        self._least: dict[str, object] = {}
        self._greatest: dict[str, object] = {}

    def write(self, rows: pa.Table) -> int:
        """Append one row group; returns its index, or -1 for no rows (which need no row group)."""
        if rows.num_rows == 0:
            return -1
        if self._writer is None:
            path = f"{self.folder}/{self.table}"
            self.filesystem.create_dir(path, recursive=True)
            self._writer = pq.ParquetWriter(
                f"{path}/{self.name}",
                self.schema,
                filesystem=self.filesystem,
                **_encodings(self.schema),
                store_schema=False,
                write_statistics=list(_STATS_COLUMNS),
            )
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        for column in _STATS_COLUMNS:
            if column in self.schema.names:
                bounds = pc.min_max(_decoded(rows.column(column))).as_py()
                self._least[column] = min(self._least.get(column, bounds["min"]), bounds["min"])
                self._greatest[column] = max(self._greatest.get(column, bounds["max"]), bounds["max"])
        self.row_count += rows.num_rows
        self.row_groups += 1
        return self.row_groups - 1

    def close(self) -> dict[str, object] | None:
        """Finish the file: a row of WRITTEN_FILE, None when nothing was written."""
        if self._writer is None:
            return None
        self._writer.close()
        size = self.filesystem.get_file_info(f"{self.folder}/{self.table}/{self.name}").size
        stats = {"numRecords": self.row_count, "minValues": self._least, "maxValues": self._greatest, "nullCount": {}}
        return {"table": self.table, "path": self.name, "size_bytes": size, "stats": json.dumps(stats)}


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Arguments of ParquetWriter; columns not named above get a dictionary, which suits what repeats."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    if len(flat) < len(schema):  # only few rows, and paths of leaves are not names of columns
        return {"compression": "zstd", "compression_level": 1}
    level = {name: 1 for name in flat if name not in _RANDOM}
    return {
        "compression": {name: "none" if name in _RANDOM else "zstd" for name in flat},
        "compression_level": level,
        "use_dictionary": [name for name in flat if name not in _NEARLY_ASCENDING | _RANDOM],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in flat if name in _NEARLY_ASCENDING},
    }


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.unique().cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
