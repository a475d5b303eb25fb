"""Decoded segments as the carry stage reads them: rows of the `segments` table and their runs of deltas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tiersnap.snapshot import tables
from tiersnap.snapshot.delta_rows import DELTA_COLUMNS, table_to_deltas
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.state.replay import Run

_NEEDED = (
    "base_offset",
    "size_bytes",
    "valid_bytes",
    "batch_count",
    "legacy_count",
    "log_end_offset",
    "first_timestamp",
    "max_timestamp",
    "has_gaps",
    "finding_kind",
    "finding_position",
    "finding_message",
    "runs",
    "deltas_file",
    "decoded_at",
)
DECODED_SEGMENT = pa.struct([tables.SEGMENTS.field(name) for name in _NEEDED])
_OPEN_FILES = 16


def segment_end(row: Mapping[str, Any], path: str) -> SegmentEnd:
    """How the segment's scan ended."""
    finding = None
    if row["finding_kind"] is not None:
        kind = FindingKind(row["finding_kind"])
        finding = Finding(kind, path, row["finding_position"], row["finding_message"])
    return SegmentEnd(
        size=row["size_bytes"],
        valid_bytes=row["valid_bytes"],
        batch_count=row["batch_count"],
        legacy_count=row["legacy_count"],
        last_offset=row["log_end_offset"] - 1,
        first_timestamp=row["first_timestamp"],
        max_timestamp=row["max_timestamp"],
        has_gaps=row["has_gaps"],
        digest="",
        crc_checked=False,
        finding=finding,
    )


class DeltaFiles:
    """Reads runs out of files of producer_deltas; neighbouring segments share files, so a few stay open."""

    def __init__(self, filesystem: fs.FileSystem, folder: str) -> None:
        self._filesystem, self._folder = filesystem, folder
        self._open: OrderedDict[str, pq.ParquetFile] = OrderedDict()

    def runs(self, row: Mapping[str, Any]) -> Iterator[Run]:
        """The runs of a decoded segment, read when they are asked for."""
        path = f"{self._folder}/{row['deltas_file']}"
        for run in row["runs"]:
            groups = [run["row_group"]] if run["row_group"] >= 0 else []
            yield Run(
                run["start_offset"], table_to_deltas(self.read(path, groups, DELTA_COLUMNS)), row["max_timestamp"]
            )

    def read(self, path: str, row_groups: list[int], columns: list[str]) -> pa.Table:
        """Row groups of a file, in the order given; an empty table for none of them."""
        if not row_groups:
            return pa.schema([tables.PRODUCER_DELTAS.field(name) for name in columns]).empty_table()
        file = self._open.pop(path, None)
        if file is None:
            file = pq.ParquetFile(self._filesystem.open_input_file(path))
        self._open[path] = file
        if len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file.read_row_groups(row_groups, columns=columns, use_threads=False)
