"""Folders of sources -> LISTED rows: partitions with their segments, and what remote storage holds of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.errors import TiersnapError, TransientError, recorded
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.never_tiered import never_tiered_reason
from tiersnap.snapshot.readiness.coverage import coverage_of
from tiersnap.snapshot.tables.listed import LISTED, fingerprint
from tiersnap.snapshot.tables.remote_log_segments import finished_copies
from tiersnap.snapshot.tasks.remote_look import RemoteLook
from tiersnap.snapshot.tasks.remote_start import claimed_start, copies_up_to, is_continued
from tiersnap.snapshot.tasks.scan_window import mark_window
from tiersnap.snapshot.tasks.sources import LogDirSource, PartitionSource, open_source

# Copies whose claims are asked for a state; an older state costs no more than a few segments read again.
_MOST_STARTS = 4

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
    _away: list[str] = field(default_factory=list)

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
                row = self.with_remote(listed, partition)
                # What was collected is decoded already.
                if self.since is not None and isinstance(source, LogDirSource):
                    mark_window(row, source.log_dir.filesystem, partition, self.since)
                rows.append(row)
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)

    def with_remote(self, row: dict[str, Any], partition: Partition) -> dict[str, Any]:
        """A row of LISTED with what remote storage holds of the partition."""
        row |= self._remote(partition)
        mark_tiered(row, partition)
        if row["remote_error"] is None:
            # The verdicts know these by a fact of the carry.
            if row["expired_to"] is not None:
                row["fingerprint"] = fingerprint(row["fingerprint"], "expired to", row["expired_to"])
            if row["encrypted_by"] is not None:
                row["fingerprint"] = fingerprint(row["fingerprint"], "encrypted")
            # A copy that comes to be where the files begin is a reason to carry again.
            if (before := _copy_before(row, partition)) is not None:
                row["fingerprint"] = fingerprint(row["fingerprint"], before)
        if self.wants_start and row["remote_error"] is None:
            row |= self._start(row, partition)
        return row

    def _start(self, row: dict[str, Any], partition: Partition) -> dict[str, Any]:
        """The columns that say where a carry may start: behind what of the log is tiered from its beginning on."""
        copies = copies_up_to(_tiered_ends(row, partition), row["copies"], partition)
        copies.sort(key=lambda copy: copy["end_offset"], reverse=True)
        if self.look is None or not copies:
            return {}
        try:
            # An earlier version began a log that is continued with nothing, and said that the log began there.
            doubts = is_continued(partition, row["copies"])
            found = claimed_start(self.look, partition, copies[:_MOST_STARTS], doubts_log_start=doubts)
        except TiersnapError as error:
            return self._unanswered(partition, error)
        return {} if found is None else {"start": found}

    def _remote(self, partition: Partition) -> dict[str, Any]:
        """The columns that say what remote storage holds; after a server that does not answer none is asked again."""
        wants_none = self.look is None or not partition.segments or partition.topic_id is None
        if wants_none or never_tiered_reason(partition) or self.look is None:
            return {}
        if self._away:
            return {"remote_error": f"not asked after: {self._away[0]}", "is_transient": True}
        try:
            return self.look(partition)
        except TiersnapError as error:
            return self._unanswered(partition, error)

    def _unanswered(self, partition: Partition, error: TiersnapError) -> dict[str, Any]:
        if isinstance(error, TransientError):
            self._away.append(error.message)
        return {"remote_error": f"{partition.name}: {error.message}", **recorded(error)}


def _copy_before(row: Mapping[str, Any], partition: Partition) -> str | None:
    """Return the segment id of the newest copy that ends where the files of a log begin that is continued."""
    if not is_continued(partition, row["copies"]):
        return None
    ending = copies_up_to({partition.first_base_offset}, row["copies"], partition)
    newest = max(ending, key=lambda copy: copy["event_timestamp"], default=None)
    return None if newest is None else str(newest["segment_id"])


def _tiered_ends(row: Mapping[str, Any], partition: Partition) -> set[int]:
    """Where segments end up to which all that is here is tiered."""
    tiered = takewhile(lambda segment: segment["is_tiered"], row["segments"])
    high_watermark = ENDLESS if partition.high_watermark is None else partition.high_watermark
    return {end for segment in tiered if (end := segment["next_base_offset"]) <= high_watermark}


def mark_tiered(row: dict[str, Any], partition: Partition) -> None:
    """Set `is_tiered` of the segments that the row's copies cover."""
    remote = coverage_of(finished_copies(row["copies"]), partition.leader_epochs or (), ENDLESS)
    for segment in row["segments"]:
        end = segment["next_base_offset"]
        segment["is_tiered"] = end is not None and remote.has_segment(segment["base_offset"], end)
