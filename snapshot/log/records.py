"""Read the records of a segment with keys and values, for Kafka's internal topics.

An unreadable batch is a finding; the batches after it are still read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np

from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.formats.compression import decompress
from tiersnap.snapshot.formats.records import SPAN_DTYPE
from tiersnap.snapshot.kernels.records import SMALLEST_RECORD, most_records, records_of_batch, records_of_batches
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind, unreadable
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.log.windows import Windows, open_windows
from tiersnap.snapshot.units import count_of

_NOT_ITS_RECORDS = "the records do not match the count and the length in their batch header"


class LogRecord(NamedTuple):
    """A record with its position in the log."""

    position: int  # byte position of the record's batch in the segment
    offset: int
    timestamp: int  # ms, set by the client or the broker
    key: bytes | None
    value: bytes | None


class SegmentRecords:
    """An iterator over the records of a segment in offset order, without control records.

    After the iteration, `findings` contains the damage.
    """

    def __init__(self, filesystem: FileSystem, segment: Segment, *, check_crc: bool = True) -> None:
        self._filesystem = filesystem
        self._path = segment.log.path
        self._scan = SegmentScan.of(filesystem, segment, check_crc=check_crc)
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[LogRecord]:
        try:
            with closing(open_windows(self._filesystem, self._path, may_shrink=True)) as windows:
                for rows in self._scan:
                    yield from self._batches(windows, rows[(rows["attributes"] & rb.CONTROL_MASK) == 0])
        except OSError as error:
            self.findings.append(unreadable(self._path, error))
            return
        self._note_end()

    def _batches(self, windows: Windows, batches: np.ndarray) -> Iterator[LogRecord]:
        if not batches.size:
            return
        start = int(batches["position"][0])
        end = int(batches["position"][-1]) + rb.LOG_OVERHEAD + int(batches["batch_length"][-1])
        window = windows.read(start, end - start)
        if window.size < end - start:
            message = f"another process cut the file to {count_of(start + window.size, 'byte')} while tiersnap read it"
            self.findings.append(Finding(FindingKind.UNREADABLE_FILE, self._path, -1, message))
            return
        is_compressed = (batches["attributes"] & rb.CODEC_MASK) != 0
        # Split into runs of compressed and of uncompressed batches. Most topics are one run.
        changes = np.flatnonzero(is_compressed[1:] != is_compressed[:-1]) + 1
        for run in np.split(batches, changes):
            if run["attributes"][0] & rb.CODEC_MASK:
                for batch in run:
                    yield from self._compressed(window, start, batch)
            else:
                yield from self._plain(window, start, run)

    def _plain(self, window: np.ndarray, start: int, batches: np.ndarray) -> Iterator[LogRecord]:
        spans, is_wrong = np.empty(most_records(batches), SPAN_DTYPE), np.zeros(batches.size, np.bool_)
        count = records_of_batches(window, start, batches, spans, is_wrong.view(np.uint8))
        yield from _records(window.tobytes(), spans[:count])
        for position in batches["position"][is_wrong].tolist():
            self._note(position, _NOT_ITS_RECORDS)

    def _compressed(self, window: np.ndarray, start: int, batch: np.void) -> Iterator[LogRecord]:
        position = int(batch["position"])
        begin = position - start + rb.HEADER_LENGTH
        stored = window[begin : position - start + rb.LOG_OVERHEAD + int(batch["batch_length"])].tobytes()
        try:
            data = decompress(int(batch["attributes"]) & rb.CODEC_MASK, stored)
        except CorruptRecordError as error:
            self._note(position, error.message)
            return
        most = min(max(int(batch["record_count"]), 0), len(data) // SMALLEST_RECORD)
        spans, one = np.empty(most, SPAN_DTYPE), np.array([batch], rb.RECORD_BATCH_DTYPE)
        count = records_of_batch(np.frombuffer(data, np.uint8), 0, len(data), one, 0, 0, spans)
        if count < 0:
            self._note(position, _NOT_ITS_RECORDS)
        yield from _records(data, spans[: max(count, 0)])

    def _note(self, position: int, message: str) -> None:
        self.findings.append(Finding(FindingKind.BAD_RECORD, self._path, position, message))

    def _note_end(self) -> None:
        end = self._scan.end
        if end.finding is not None and end.finding.finding_kind is not FindingKind.EMPTY_SEGMENT:
            self.findings.append(end.finding)
        if end.legacy_count:
            message = f"skipped {count_of(end.legacy_count, 'entry', 'entries')} of magic 0 or 1"
            self.findings.append(Finding(FindingKind.BAD_MAGIC, self._path, -1, message))


def _records(data: bytes, spans: np.ndarray) -> Iterator[LogRecord]:
    for position, offset, timestamp, key, key_length, value, value_length in spans.tolist():
        yield LogRecord(
            position,
            offset,
            timestamp,
            None if key_length < 0 else data[key : key + key_length],
            None if value_length < 0 else data[value : value + value_length],
        )
