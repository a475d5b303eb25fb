"""Folders of sources -> LISTED rows: partitions with their segments, and what remote storage holds of them.

Neither the size nor the time of a snapshot file says when it can be read, so each run tries those that it could not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.codecs import Row
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.exactly_once.simulate.forgotten import told_forgotten
from tiersnap.snapshot.formats.indexes import decode_time_index
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.replay.expiry import fingerprint
from tiersnap.snapshot.replay.partition_listing import PartitionListing, RemoteLister, copy_before
from tiersnap.snapshot.replay.remote_listing import RemoteLook
from tiersnap.snapshot.replay.snapshot_comparison import why_not_read
from tiersnap.snapshot.replay.window_start import window_offset
from tiersnap.snapshot.tables.listed import LISTED, partition_folder, remote_columns
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, PARTITIONS
from tiersnap.snapshot.tasks.sources import LogDirSource, PartitionSource, open_source


def mark_window(row: dict[str, Any], filesystem: FileSystem, partition: Partition, since: int) -> None:
    """Set `window_offset` of the row, and what the time indexes say of its closed segments."""
    largest: list[int | None] = []
    for segment, listed in zip(partition.segments, row["segments"], strict=True):
        listed["largest_timestamp"] = None if segment.is_active else _largest_timestamp(filesystem, segment)
        # A time index that lost its end tells too early a time. Then the file's own time, if it was kept, is later.
        written = segment.log.modified_ns // 1_000_000
        largest.append(None if listed["largest_timestamp"] is None else max(listed["largest_timestamp"], written))
    bases = [segment.base_offset for segment in partition.segments]
    found = window_offset(bases, largest, since)
    if found is not None and partition.high_watermark is not None:
        # What transactions are open at the high watermark must be known.
        below = [base for base in bases if base <= max(partition.high_watermark, partition.log_start_offset)]
        found = min(found, below[-1]) if len(below) > 1 else None
    row["window_offset"] = found if found is None or found > bases[0] else None
    if row["start"] is not None and row["start"]["offset"] < (row["window_offset"] or 0):
        row["start"] = None  # no replay begins there


def _largest_timestamp(filesystem: FileSystem, segment: Segment) -> int | None:
    """The last entry of the segment's time index (ms), None where there is no index or no time in it."""
    if segment.time_index is None:
        return None
    try:
        entries = decode_time_index(read_bounded(filesystem, segment.time_index.path), base_offset=segment.base_offset)
    except (OSError, CorruptIndexError):
        return None
    return int(entries["timestamp"][-1]) if entries.size and entries["timestamp"][-1] > 0 else None


FOLDERS = pa.schema([("log_dir", pa.string()), ("folder", pa.string())])


@dataclass(frozen=True)
class ListPartitions:
    """FOLDERS rows -> LISTED rows.

    Attributes:
        topic_ids: ids by topic, for topics that have none on disk.
        look: at remote storage; None leaves it alone.
        since: ms; a bounded scan leaves out the segments before the first one that has a later record. None scans all.
        wants_start: ask remote storage for a state to start from, since no table has any.
        living: (now, producer.id.expiration.ms or None), both ms: ask which living producers a replica has forgotten.
            None asks nothing.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    look: RemoteLook | None = None
    since: int | None = None
    wants_start: bool = False
    living: tuple[int, int | None] | None = None
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
                if self.living is not None and isinstance(source, LogDirSource) and row["remote_error"] is None:
                    row["forgotten"] = self._forgotten(source.filesystem, partition, *self.living)
                # What was collected is decoded already.
                if self.since is not None and isinstance(source, LogDirSource):
                    mark_window(row, source.log_dir.filesystem, partition, self.since)
                rows.append(row)
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)

    def _forgotten(self, filesystem: FileSystem, partition: Partition, now: int, expiration: int | None) -> Row | None:
        """Return a FORGOTTEN row, None if the replica knows all living producers."""
        if self.look is None:
            return None
        lost = told_forgotten(self.look, filesystem, partition, now=now, producer_expiration=expiration)
        return None if lost is None else {"known": lost.known, "living": lost.living, "meets": lost.meets}

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
    filesystem, folder = partition_folder(*(row[name] for name in PARTITION_KEY))
    try:
        read_bounded(filesystem, f"{folder}/{row['object'] or file_name(row['end_offset'])}")
    except OSError as error:
        return why_not_read(error)
    return None
