"""The records of a segment, keys and values included: for Kafka's own topics, whose records say what no header says.

Whatever cannot be read is a finding, and the rest is read all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
from pyarrow import fs

from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.formats.compression import decompress
from tiersnap.snapshot.formats.records import read_records
from tiersnap.snapshot.log.findings import Finding, FindingKind, unreadable
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.log.windows import Windows, open_windows


class LogRecord(NamedTuple):
    """A record where it lies.

    Attributes:
        position: byte position of its batch.
        timestamp: ms, as clients or the broker stamped it.
    """

    position: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class SegmentRecords:
    """Iterate once for the records in offset order, control records left out; then read `findings`."""

    def __init__(self, filesystem: fs.FileSystem, segment: Segment, *, check_crc: bool = True) -> None:
        self._filesystem = filesystem
        self._path = segment.log.path
        self._scan = SegmentScan(
            filesystem,
            segment.log.path,
            base_offset=segment.base_offset,
            next_base_offset=segment.next_base_offset,
            check_crc=check_crc,
        )
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[LogRecord]:
        try:
            with closing(open_windows(self._filesystem, self._path, may_shrink=True)) as windows:
                for rows in self._scan:
                    for row in rows[(rows["attributes"] & rb.CONTROL_MASK) == 0]:
                        yield from self._batch(windows, row)
        except OSError as error:
            self.findings.append(unreadable(self._path, error))
            return
        self._note_end()

    def _batch(self, windows: Windows, row: np.void) -> Iterator[LogRecord]:
        position, attributes = int(row["position"]), int(row["attributes"])
        length = rb.LOG_OVERHEAD + int(row["batch_length"]) - rb.HEADER_LENGTH
        payload = windows.read(position + rb.HEADER_LENGTH, length).tobytes()
        base_offset, base_timestamp = int(row["base_offset"]), int(row["base_timestamp"])
        append_time = int(row["max_timestamp"]) if attributes & rb.TIMESTAMP_TYPE_MASK else None
        try:
            for record in read_records(decompress(attributes & rb.CODEC_MASK, payload), int(row["record_count"])):
                timestamp = base_timestamp + record.timestamp_delta if append_time is None else append_time
                yield LogRecord(position, base_offset + record.offset_delta, timestamp, record.key, record.value)
        except CorruptRecordError as error:
            self.findings.append(Finding(FindingKind.BAD_RECORD, self._path, position, error.message))

    def _note_end(self) -> None:
        end = self._scan.end
        if end.finding is not None and end.finding.kind is not FindingKind.EMPTY_SEGMENT:
            self.findings.append(end.finding)
        if end.legacy_count:
            message = f"{end.legacy_count} entries of magic 0 or 1, which are not read here"
            self.findings.append(Finding(FindingKind.BAD_MAGIC, self._path, -1, message))
