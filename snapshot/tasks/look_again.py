"""Snapshot files that a replay could not read -> the partitions of which one gives another answer now.

Neither the size nor the time of a file says when it can be read, so each run tries those that it could not. Where the
answer is the same, the partition is as it was replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import read_bounded
from tiersnap.snapshot.replay.found_snapshot import why_not_read
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, PARTITIONS

ANSWERED = pa.schema([PARTITIONS.field(name) for name in PARTITION_KEY])
UNREAD = pa.schema(
    [
        *ANSWERED,
        ("end_offset", pa.int64()),
        ("object", pa.string()),  # of a collected folder; null where the file lies
        ("not_read", pa.string()),  # why it could not be read before
    ]
)


def look_again(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """UNREAD rows -> ANSWERED rows, one for each file that gives another answer than before."""
    for batch in batches:
        rows = [row for row in batch.to_pylist() if _not_read(row) != row["not_read"]]
        yield pa.RecordBatch.from_pylist([{name: row[name] for name in PARTITION_KEY} for row in rows], ANSWERED)


def _not_read(row: Mapping[str, Any]) -> str | None:
    filesystem, folder = partition_folder(row)
    try:
        read_bounded(filesystem, f"{folder}/{row['object'] or file_name(row['end_offset'])}")
    except OSError as error:
        return why_not_read(error)
    return None
