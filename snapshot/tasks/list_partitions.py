"""Folders of sources -> LISTED rows: partitions with their segments, and what remote storage holds of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.coverage import coverage_of
from tiersnap.snapshot.gate.topics import never_tiered_reason
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.tables.listed import LISTED
from tiersnap.snapshot.tables.remote_log_segments import finished_copies
from tiersnap.snapshot.tasks.remote_look import RemoteLook
from tiersnap.snapshot.tasks.sources import PartitionSource, open_source

_ENDLESS = 1 << 63

FOLDERS = pa.schema([("log_dir", pa.string()), ("folder", pa.string())])


@dataclass(frozen=True)
class ListPartitions:
    """FOLDERS rows -> LISTED rows.

    Attributes:
        topic_ids: ids by topic, for topics that have none on disk.
        look: at remote storage; None leaves it alone.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    look: RemoteLook | None = None
    _away: list[str] = field(default_factory=list)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List each folder; one that vanished or may not be read is a row with a finding."""
        opened: dict[str, PartitionSource] = {}
        for batch in batches:
            rows = []
            for log_dir, folder in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if log_dir not in opened:
                    opened[log_dir] = open_source(log_dir)
                rows.append(self.with_remote(*opened[log_dir].listed(folder, self.topic_ids)))
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)

    def with_remote(self, row: dict[str, Any], partition: Partition) -> dict[str, Any]:
        """A row of LISTED with what remote storage holds of the partition."""
        row |= self._remote(partition)
        mark_tiered(row, partition)
        return row

    def _remote(self, partition: Partition) -> dict[str, Any]:
        """The columns that say what remote storage holds; after a server that does not answer none is asked again."""
        wants_none = self.look is None or not partition.segments or partition.topic_id is None
        if wants_none or never_tiered_reason(partition) or self.look is None:
            return {}
        if self._away:
            return {"remote_error": f"not asked after: {self._away[0]}", "is_transient": True}
        try:
            return {"copies": self.look(partition)}
        except TiersnapError as error:
            is_transient = isinstance(error, TransientError)
            if is_transient:
                self._away.append(error.message)
            return {"remote_error": f"{partition.name}: {error.message}", "is_transient": is_transient}


def mark_tiered(row: dict[str, Any], partition: Partition) -> None:
    """Set `is_tiered` of the segments that the row's copies cover."""
    remote = coverage_of(finished_copies(row["copies"]), partition.leader_epochs or (), _ENDLESS)
    for segment in row["segments"]:
        end = segment["next_base_offset"]
        segment["is_tiered"] = end is not None and end <= remote.highest and remote.covers(segment["base_offset"], end)
