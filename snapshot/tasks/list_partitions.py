"""Folders of sources -> LISTED rows: partitions with their segments, and what remote storage holds of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.replay.partition_listing import PartitionListing, RemoteLister, copy_before
from tiersnap.snapshot.replay.remote_listing import RemoteLook
from tiersnap.snapshot.replay.replay_options import fingerprint
from tiersnap.snapshot.tables.listed import LISTED, remote_columns
from tiersnap.snapshot.tasks.scan_window import mark_window
from tiersnap.snapshot.tasks.sources import LogDirSource, PartitionSource, open_source

FOLDERS = pa.schema([("log_dir", pa.string()), ("folder", pa.string())])


@dataclass(frozen=True)
class ListPartitions:
    """FOLDERS rows -> LISTED rows.

    Attributes:
        topic_ids: ids by topic, for topics that have none on disk.
        look: at remote storage; None leaves it alone.
        since: ms; a bounded scan leaves out the segments before the first one that has a later record. None scans all.
        wants_start: ask remote storage for a state to start from, since no table has any.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    look: RemoteLook | None = None
    since: int | None = None
    wants_start: bool = False
    _lister: RemoteLister = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lister", RemoteLister(self.look, self.wants_start))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List each folder; one that vanished or may not be read is a row with a finding."""
        opened: dict[str, PartitionSource] = {}
        for batch in batches:
            rows = []
            for log_dir, folder in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if log_dir not in opened:
                    opened[log_dir] = open_source(log_dir)
                source = opened[log_dir]
                listed, partition = source.listed(folder, self.topic_ids)
                row = self.with_remote(listed, PartitionListing(source.filesystem, partition))
                # What was collected is decoded already.
                if self.since is not None and isinstance(source, LogDirSource):
                    mark_window(row, source.log_dir.filesystem, partition, self.since)
                rows.append(row)
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)

    def with_remote(self, row: dict[str, Any], listing: PartitionListing) -> dict[str, Any]:
        """Return a row of LISTED with what remote storage holds of the partition."""
        found = self._lister.with_remote(listing)
        row |= remote_columns(found)
        for segment in row["segments"]:
            segment["is_tiered"] = segment["base_offset"] in found.tiered
        # A replay keeps some of it, by which the verdicts know it.
        if found.remote.expired_to is not None:
            row["fingerprint"] = fingerprint(row["fingerprint"], "expired to", found.remote.expired_to)
        if found.remote.encrypted_by is not None:
            row["fingerprint"] = fingerprint(row["fingerprint"], "encrypted")
        # A copy that comes to be where the files begin is a reason to replay again.
        if (before := copy_before(found)) is not None:
            row["fingerprint"] = fingerprint(row["fingerprint"], before.segment_id)
        return row
