"""One segment file -> decoded batches by window, and how the file ended.

A partial tail is normal in the active segment: the broker was writing, or crashed and will cut it. In a closed segment
it is damage. Damage ends the scan where a broker's recovery would cut the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pyarrow import fs

from snapshot import batch_kernels as kernels
from snapshot.findings import Finding, FindingKind
from snapshot.record_batch import HEADER_LENGTH, RECORD_BATCH_DTYPE
from snapshot.windows import WINDOW_BYTES, Windows, open_windows

# Rows of one pass: few enough to stay in the processor's cache until they are counted, folded and copied.
_ROWS = 8192

_MESSAGES = {
    kernels.BAD_SIZE: (FindingKind.BAD_SIZE, "batch size expected at least {expected}, found {found}"),
    kernels.BAD_MAGIC: (FindingKind.BAD_MAGIC, "magic expected 0 to {expected}, found {found}"),
    kernels.BAD_CRC: (FindingKind.BAD_CRC, "CRC stored {expected:08x}, computed {found:08x}"),
    kernels.BAD_OFFSET: (FindingKind.BAD_OFFSET, "base offset expected at least {expected}, found {found}"),
    kernels.BAD_CONTROL: (
        FindingKind.BAD_CONTROL_RECORD,
        "control record type expected 0 (ABORT) or 1 (COMMIT), uncompressed; found {found}",
    ),
}


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """How a scan ended.

    Attributes:
        size: bytes of the file when it was opened.
        valid_bytes: bytes up to the end of the last good entry.
        last_offset: last offset of the last good entry, base offset - 1 when there is none.
        max_timestamp: ms, largest of the decoded batches, -1 without one.
        legacy_count: entries of magic 0 and 1, counted and not decoded.
        finding: damage that ended the scan, or None.
    """

    size: int
    valid_bytes: int
    batch_count: int
    legacy_count: int
    last_offset: int
    first_timestamp: int
    max_timestamp: int
    has_gaps: bool
    finding: Finding | None


class SegmentScan:
    """Iterate once for the decoded rows (RECORD_BATCH_DTYPE; each array is valid until the next), then read `end`."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        path: str,
        *,
        base_offset: int,
        next_base_offset: int | None,
        check_crc: bool = True,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        """Prepare a scan of the segment file at `path`.

        Args:
            base_offset: the number in the file's name.
            next_base_offset: base offset of the next segment; None for the active segment.
        """
        self._filesystem = filesystem
        self._path = path
        self._base_offset = base_offset
        self._next_base_offset = next_base_offset
        self._check_crc = check_crc
        self._window_bytes = window_bytes
        self.end: SegmentEnd

    def __iter__(self) -> Iterator[np.ndarray]:
        try:
            windows = open_windows(self._filesystem, self._path, may_shrink=self._next_base_offset is None)
        except OSError as error:
            self.end = self._end(Counts(self._base_offset), 0, _unreadable(self._path, error))
            return
        try:
            yield from self._scan(windows)
        finally:
            windows.close()

    def _scan(self, windows: Windows) -> Iterator[np.ndarray]:
        counts = Counts(self._base_offset)
        out = np.empty(min(max(windows.size // HEADER_LENGTH, 1), _ROWS), RECORD_BATCH_DTYPE)
        usual = min(self._window_bytes, windows.best_bytes)
        position, length, reason = 0, usual, kernels.PARTIAL
        expected = found = 0
        while position < windows.size:
            try:
                window = windows.read(position, length)
            except OSError as error:
                self.end = self._end(counts, windows.size, _unreadable(self._path, error))
                return
            at_end = window.size < length or position + window.size >= windows.size
            cursor = 0
            reason = kernels.FULL
            while reason == kernels.FULL:
                rows, cursor, legacy, last_offset, reason, expected, found = kernels.walk(
                    window, cursor, position, counts.last_offset, self._check_crc, out
                )
                counts.legacy_count += legacy
                if rows:
                    counts.add(out[:rows])
                    yield out[:rows]
                counts.last_offset = last_offset
                counts.valid_bytes = position + cursor
            if reason not in (kernels.PARTIAL, kernels.END) or at_end:
                break
            # A batch larger than the window: look again through a larger one.
            length = usual if cursor else length * 2
            position += cursor
        if windows.size == 0:
            reason = kernels.END
        tail_is_zero = reason == kernels.ZEROS and _is_zero(windows, counts.valid_bytes)
        if reason == kernels.ZEROS and not tail_is_zero:
            reason = kernels.BAD_SIZE
        self.end = self._end(counts, windows.size, self._finding(counts, windows.size, reason, expected, found))

    def _finding(self, counts: Counts, size: int, reason: int, expected: int, found: int) -> Finding | None:
        closed = self._next_base_offset is not None
        if reason in _MESSAGES:
            kind, message = _MESSAGES[reason]
            return Finding(kind, self._path, counts.valid_bytes, message.format(expected=expected, found=found))
        if not closed:
            return None
        if size == 0:
            return Finding(FindingKind.EMPTY_SEGMENT, self._path, -1, "0 bytes in a closed segment")
        if counts.valid_bytes < size:
            message = f"the last batch is cut: {size - counts.valid_bytes} bytes left over in a closed segment"
            return Finding(FindingKind.TRUNCATED_SEGMENT, self._path, counts.valid_bytes, message)
        if counts.last_offset >= (self._next_base_offset or 0):
            message = f"last offset expected below {self._next_base_offset}, found {counts.last_offset}"
            return Finding(FindingKind.OFFSETS_OVERLAP, self._path, -1, message)
        return None

    def _end(self, counts: Counts, size: int, finding: Finding | None) -> SegmentEnd:
        return SegmentEnd(
            size=size,
            valid_bytes=counts.valid_bytes,
            batch_count=counts.batch_count,
            legacy_count=counts.legacy_count,
            last_offset=counts.last_offset,
            first_timestamp=counts.first_timestamp,
            max_timestamp=counts.max_timestamp,
            has_gaps=counts.has_gaps,
            finding=finding,
        )


class Counts:
    """Running totals of a scan."""

    def __init__(self, base_offset: int) -> None:
        self.valid_bytes = 0
        self.batch_count = 0
        self.legacy_count = 0
        self.last_offset = base_offset - 1
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.has_gaps = False

    def add(self, rows: np.ndarray) -> None:
        """Count decoded rows; call it before `last_offset` moves past them."""
        if self.batch_count == 0:
            self.first_timestamp = int(rows["max_timestamp"][0])
            # Nothing is missing before the first batch, wherever the segment begins.
            self.last_offset = int(rows["base_offset"][0]) - 1
        self.batch_count += rows.size
        greatest, is_missing_records, is_missing_batches = kernels.totals(rows, self.last_offset)
        self.max_timestamp = max(self.max_timestamp, greatest)
        # Only the cleaner removes records from a batch or batches from between others.
        self.has_gaps = self.has_gaps or is_missing_records or (is_missing_batches and self.legacy_count == 0)


def _unreadable(path: str, error: OSError) -> Finding:
    return Finding(FindingKind.UNREADABLE_FILE, path, -1, error.strerror or str(error))


def _is_zero(windows: Windows, position: int) -> bool:
    while position < windows.size:
        window = windows.read(position, WINDOW_BYTES)
        if window.size == 0 or window.any():
            return False
        position += window.size
    return True
