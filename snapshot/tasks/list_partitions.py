"""Folders of log directories -> LISTED rows: partitions with their segments, and what remote storage holds of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import fs

from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, MetaProperties, parse
from tiersnap.snapshot.log.log_dir import LogDir, open_log_dir, read_partition, read_text
from tiersnap.snapshot.tables.listed import LISTED, to_row

FOLDERS = pa.schema([("log_dir", pa.string()), ("folder", pa.string())])


@dataclass(frozen=True)
class ListPartitions:
    """FOLDERS rows -> LISTED rows.

    Attributes:
        topic_ids: ids by topic, for topics that have none on disk.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List each folder; one that vanished or may not be read is a row with a finding."""
        opened: dict[str, tuple[LogDir, MetaProperties | None]] = {}
        for batch in batches:
            rows = []
            for log_dir, folder in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if log_dir not in opened:
                    found = open_log_dir(log_dir)
                    opened[log_dir] = found, read_properties(found.filesystem, found.path)
                source, properties = opened[log_dir]
                partition = read_partition(source.filesystem, f"{source.path}/{folder}", source.checkpoints)
                topic_id = partition.topic_id or self.topic_ids.get(partition.topic)
                rows.append(to_row(log_dir, replace(partition, topic_id=topic_id), properties=properties))
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)


def read_properties(filesystem: fs.FileSystem, path: str) -> MetaProperties | None:
    """What `meta.properties` of a log directory says; None where there is none that can be read."""
    name = f"{path}/{META_PROPERTIES}"
    try:
        return parse(read_text(filesystem, name), name=name)
    except (OSError, CorruptCheckpointError):
        return None
