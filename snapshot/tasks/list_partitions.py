"""Folders of log directories -> LISTED rows: partitions with their segments, and what remote storage holds of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tiersnap.snapshot.errors import CorruptCheckpointError, CorruptIndexError, TiersnapError, TransientError
from tiersnap.snapshot.formats.indexes import decode_time_index
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, MetaProperties, parse
from tiersnap.snapshot.gate.coverage import CopyFacts, coverage_of
from tiersnap.snapshot.gate.topics import never_tiered_reason
from tiersnap.snapshot.log.log_dir import LogDir, Partition, Segment, open_log_dir, read_partition, read_text
from tiersnap.snapshot.regular_file import read_bounded
from tiersnap.snapshot.state.scan_window import window_offset
from tiersnap.snapshot.tables.listed import LISTED, to_row
from tiersnap.snapshot.tasks.remote_look import RemoteLook

_ENDLESS = 1 << 63
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
                known = replace(partition, topic_id=topic_id)
                row = self.with_remote(to_row(log_dir, known, properties=properties), known)
                if self.since is not None:
                    mark_window(row, source.filesystem, known, self.since)
                rows.append(row)
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)

    def with_remote(self, row: dict[str, Any], partition: Partition) -> dict[str, Any]:
        """A row of LISTED with what remote storage holds of the partition."""
        row |= self._remote(partition)
        mark_tiered(row, partition)
        if self.wants_start and row["remote_error"] is None:
            row |= self._start(row, partition)
        return row

    def _start(self, row: dict[str, Any], partition: Partition) -> dict[str, Any]:
        """The columns that say where a carry may start: behind what of the log is tiered from its beginning on."""
        tiered = takewhile(lambda segment: segment["is_tiered"], row["segments"])
        ends = {segment["next_base_offset"] for segment in tiered}
        if partition.high_watermark is not None:
            ends = {end for end in ends if end <= partition.high_watermark}
        copies = [copy for copy in row["copies"] if copy["end_offset"] + 1 in ends and _agrees(copy, partition)]
        copies.sort(key=lambda copy: copy["end_offset"], reverse=True)
        if self.look is None or not copies:
            return {}
        try:
            return {"start": self.look.find_start(partition, copies[:_MOST_STARTS])}
        except TiersnapError as error:
            return {"remote_error": f"{partition.name}: {error.message}", "is_transient": True}

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


def read_properties(filesystem: fs.FileSystem, path: str) -> MetaProperties | None:
    """What `meta.properties` of a log directory says; None where there is none that can be read."""
    name = f"{path}/{META_PROPERTIES}"
    try:
        return parse(read_text(filesystem, name), name=name)
    except (OSError, CorruptCheckpointError):
        return None


def mark_window(row: dict[str, Any], filesystem: fs.FileSystem, partition: Partition, since: int) -> None:
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
        row["start"] = None


def _largest_timestamp(filesystem: fs.FileSystem, segment: Segment) -> int | None:
    """The last entry of the segment's time index (ms), None where there is no index or no time in it."""
    if segment.time_index is None:
        return None
    try:
        entries = decode_time_index(read_bounded(filesystem, segment.time_index.path), base_offset=segment.base_offset)
    except (OSError, CorruptIndexError):
        return None
    return int(entries["timestamp"][-1]) if entries.size and entries["timestamp"][-1] > 0 else None


def _copy_facts(copy: Mapping[str, Any]) -> CopyFacts:
    epochs = tuple((epoch["epoch"], epoch["start_offset"]) for epoch in copy["leader_epochs"])
    return CopyFacts(copy["start_offset"], copy["end_offset"] + 1, epochs, copy["state"] == "COPY_SEGMENT_FINISHED")


def _agrees(copy: Mapping[str, Any], partition: Partition) -> bool:
    """Whether the whole copy is of the log's own lineage."""
    facts = _copy_facts(copy)
    return coverage_of([facts], partition.leader_epochs or (), _ENDLESS).covers(facts.start_offset, facts.end_offset)


def mark_tiered(row: dict[str, Any], partition: Partition) -> None:
    """Set `is_tiered` of the segments that the row's copies cover."""
    copies = [_copy_facts(copy) for copy in row["copies"]]
    remote = coverage_of(copies, partition.leader_epochs or (), _ENDLESS)
    for segment in row["segments"]:
        end = segment["next_base_offset"]
        segment["is_tiered"] = end is not None and end <= remote.highest and remote.covers(segment["base_offset"], end)
