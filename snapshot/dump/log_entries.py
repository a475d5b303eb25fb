"""Entries of a log file, read in windows, including old formats and damaged entries.

`log.segment_scan` stops at the first damage, where a broker's recovery truncates the file. This module continues, as
kafka-dump-log does: an entry with a wrong checksum, magic or offset has a `problem`. Reading ends after the last
complete entry, or at an impossible entry size.

Entries of magic 0 and 1 have only the following fields. All other columns of such an entry are -1:

    off len type   field
      0   8 int64  offset
      8   4 int32  size
     12   4 uint32 crc         CRC-32 (not CRC-32C) of bytes 16 .. end
     16   1 int8   magic
     17   1 int8   attributes  0-2 codec, 3 timestamp type (magic 1)
     18   8 int64  timestamp   ms, magic 1 only

Follows org.apache.kafka.common.record.FileLogInputStream, DefaultRecordBatch and LegacyRecord.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import google_crc32c
import numpy as np

from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.kernels.dump_entries import LOG_ENTRY_DTYPE, MORE, PEEK, walk_all
from tiersnap.snapshot.log.segment_walk import compressed_control_record, compressed_controls
from tiersnap.snapshot.log.windows import BufferedWindows, Windows, is_zero, pieces

ROWS = 8192
WINDOW_BYTES = 8 << 20

STOPPED = 100

_LEGACY_CRC_START = 16


@dataclass(frozen=True, slots=True)
class EntriesEnd:
    """The position at which the entries end, and the reason."""

    size: int  # bytes of the file, or `max_bytes` if that is less
    valid_bytes: int  # bytes up to the end of the last entry, which may have a problem
    reason: int  # kernels.END, PARTIAL, ZEROS (only zeros follow), BAD_SIZE or STOPPED (`count` was reached)
    found: int = 0  # entry size in the file, for BAD_SIZE


@dataclass
class LogEntries:
    """The entries of a log file, as arrays of LOG_ENTRY_DTYPE. Iterate once. After that, read `end`.

    An array is valid until the next one is read.
    """

    path: str  # path of a local file, which may grow or shrink meanwhile
    base_offset: int = 0  # an entry with a lower offset has the problem BAD_OFFSET
    max_bytes: int | None = None  # limit of the bytes to read; None for the whole file
    count: int | None = None  # limit of the entries; None for all
    check_crc: bool = True
    window_bytes: int = WINDOW_BYTES  # bytes that are read at once
    end: EntriesEnd = field(init=False)

    def __post_init__(self) -> None:
        self.window_bytes = max(self.window_bytes, rb.HEADER_LENGTH)

    def __iter__(self) -> Iterator[np.ndarray]:
        windows = BufferedWindows(self.path, follow=True)
        left = self.count
        try:
            for rows in self._read(windows):
                rows = rows[:left]
                yield rows
                if left is not None:
                    left -= rows.size
                    if left == 0:
                        last = rows[-1]
                        valid_bytes = int(last["position"]) + rb.LOG_OVERHEAD + int(last["batch_length"])
                        self.end = EntriesEnd(windows.size, valid_bytes, STOPPED)
                        return
        finally:
            windows.close()

    def _read(self, windows: Windows) -> Iterator[np.ndarray]:
        limit = windows.size if self.max_bytes is None else min(windows.size, self.max_bytes)
        out = np.zeros(ROWS, LOG_ENTRY_DTYPE)
        position, last_offset, reason, found = 0, self.base_offset - 1, MORE, 0
        while reason == MORE:
            window = windows.read(position, self.window_bytes)
            if window.size < min(self.window_bytes, windows.size - position):
                # The broker truncated the file meanwhile.
                limit = position + window.size
            read = partial(_slice, window, position)
            cursor, reason = 0, kernels.ROWS_FULL
            while reason == kernels.ROWS_FULL:
                count, cursor, last_offset, reason, found = walk_all(
                    window, cursor, position, limit, windows.size, last_offset, self.check_crc, out
                )
                if count:
                    self._check_legacy(out[:count], read)
                    _read_compressed_controls(out[:count], window, position)
                    yield out[:count]
            if reason == MORE and cursor == 0:
                cursor, last_offset = self._read_large(windows, position, limit, last_offset, out[:1])
                yield out[:1]
            position += cursor
        if reason == kernels.ZEROS and not is_zero(windows, position, limit):
            reason = kernels.BAD_SIZE
        self.end = EntriesEnd(limit, position, reason, found)

    def _read_large(
        self, windows: Windows, position: int, limit: int, last_offset: int, out: np.ndarray
    ) -> tuple[int, int]:
        """Read an entry that is larger than a window into `out`. Return its size and the new last offset.

        The checksum is computed piece by piece.
        """
        start, before = windows.read(position, max(self.window_bytes, PEEK)), last_offset
        _, size, last_offset, *_ = walk_all(start, 0, position, limit, windows.size, last_offset, False, out)
        if self.check_crc:
            self._check_legacy(out, partial(pieces, windows))
            last_offset = last_offset if self._check_large(out[0], windows) else before
        return size, last_offset

    def _check_legacy(self, rows: np.ndarray, read: Callable[[int, int], Iterable[np.ndarray]]) -> None:
        if not self.check_crc:
            return
        for index in np.flatnonzero(rows["magic"] < 2):
            start = int(rows["position"][index])
            end = start + rb.LOG_OVERHEAD + int(rows["batch_length"][index])
            crc = 0
            for piece in read(start + _LEGACY_CRC_START, end):
                crc = zlib.crc32(piece.tobytes(), crc)
            if crc != rows["crc"][index]:
                rows["computed_crc"][index] = crc
                rows["problem"][index] = rows["problem"][index] or kernels.BAD_CRC

    def _check_large(self, row: np.ndarray, windows: Windows) -> bool:
        """Return whether the CRC of a batch is right. If it is wrong, set `problem` to BAD_CRC as `walk_all` does.

        Entries of magic 0 and 1 are not checked here.
        """
        if row["magic"] < 2:
            return True
        start = int(row["position"])
        crc = 0
        for piece in pieces(windows, start + rb.CRC_START, start + rb.LOG_OVERHEAD + int(row["batch_length"])):
            crc = google_crc32c.extend(crc, piece.tobytes())
        if crc != row["crc"]:
            row["computed_crc"] = crc
            if row["problem"] in (0, kernels.BAD_CONTROL, kernels.BAD_OFFSET):
                row["problem"] = kernels.BAD_CRC
            return False
        return True


def _read_compressed_controls(rows: np.ndarray, window: np.ndarray, window_position: int) -> None:
    """Set the control fields of compressed control batches in `rows`, because the kernel does not decompress them.

    Skip a batch that ends outside the window.
    """
    for index in compressed_controls(rows):
        row = rows[index]
        start = int(row["position"]) - window_position
        end = start + rb.LOG_OVERHEAD + int(row["batch_length"])
        if end > window.size or row["problem"] == kernels.BAD_SIZE:
            continue
        kind, coordinator_epoch, delta = compressed_control_record(window[start:end])
        if kind == kernels.MALFORMED or (kind > rb.COMMIT and row["producer_id"] >= 0):
            row["problem"] = row["problem"] or kernels.BAD_CONTROL
            continue
        is_append_time = row["attributes"] & rb.TIMESTAMP_TYPE_MASK
        row["control_type"], row["coordinator_epoch"] = kind, coordinator_epoch
        row["control_timestamp"] = row["max_timestamp"] if is_append_time else row["base_timestamp"] + delta


def is_valid(rows: np.ndarray) -> np.ndarray:
    """Return RecordBatch.isValid for each entry: the size covers at least the header, and the checksum is right."""
    large_enough = (rows["magic"] < 2) | (rows["batch_length"] + rb.LOG_OVERHEAD >= rb.HEADER_LENGTH)
    return large_enough & (rows["computed_crc"] < 0)


def _slice(window: np.ndarray, window_position: int, start: int, end: int) -> list[np.ndarray]:
    return [window[start - window_position : end - window_position]]
