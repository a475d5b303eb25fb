"""One segment file -> decoded batches by window, and how the file ended.

A partial tail is normal in the active segment: the broker was writing, or crashed and will cut it. In a closed segment
it is damage. Damage ends the scan where a broker's recovery would cut the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pyarrow import fs

from tiersnap.snapshot.formats.record_batch import HEADER_LENGTH, RECORD_BATCH_DTYPE
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.windows import WINDOW_BYTES, Windows, open_windows
from tiersnap.snapshot.state.producer_state import DELTA_DTYPE, ProducerFold

# Rows of one pass: few enough to stay in the processor's cache until they are counted, folded and copied.
_ROWS = 8192
_PAUSES = (kernels.ROWS_FULL, kernels.TABLE_FULL, kernels.CUT)
_NO_DELTAS = np.empty(0, DELTA_DTYPE)

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


class Folding(Protocol):
    """What becomes of the batches while they are decoded.

    Attributes:
        producers: takes them in.
        stop_at: at the first batch at or above this offset, `cut` is called before that batch is folded.
    """

    producers: ProducerFold

    @property
    def stop_at(self) -> int:
        """NO_CUT, or above what was folded."""
        ...

    def cut(self) -> None:
        """Go on with other producers and a larger `stop_at`."""
        ...


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
        keep_rows: bool = True,
        folding: Folding | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        """Prepare a scan of the segment file at `path`.

        Args:
            base_offset: the number in the file's name.
            next_base_offset: base offset of the next segment; None for the active segment.
            keep_rows: False gives no rows, which is faster for who only folds or checks.
            folding: folds in the same pass.
        """
        self._filesystem = filesystem
        self._path = path
        self._base_offset = base_offset
        self._next_base_offset = next_base_offset
        self._check_crc = check_crc
        self._keep_rows = keep_rows
        self._folding = folding
        self._window_bytes = window_bytes
        self.end: SegmentEnd

    def __iter__(self) -> Iterator[np.ndarray]:
        state = np.zeros(1, kernels.WALK_DTYPE)[0]
        state["last_offset"] = self._base_offset - 1
        state["first_timestamp"] = state["max_timestamp"] = -1
        size = 0
        try:
            with closing(
                open_windows(self._filesystem, self._path, may_shrink=self._next_base_offset is None)
            ) as windows:
                size = windows.size
                yield from self._scan(windows, state)
        except OSError as error:
            finding = Finding(FindingKind.UNREADABLE_FILE, self._path, -1, error.strerror or str(error))
            self.end = self._end(state, size, finding)

    def _scan(self, windows: Windows, state: np.void) -> Iterator[np.ndarray]:
        rows = min(max(windows.size // HEADER_LENGTH, 1), _ROWS)
        out = np.empty(rows, RECORD_BATCH_DTYPE) if self._keep_rows else kernels.NO_ROWS
        usual = min(self._window_bytes, windows.best_bytes)
        position, length, reason = 0, usual, kernels.END
        while position < windows.size:
            window = windows.read(position, length)
            at_end = window.size < length or position + window.size >= windows.size
            cursor, reason = 0, kernels.ROWS_FULL
            while reason in _PAUSES:
                cursor, reason = self._walk(window, cursor, position, state, out)
                if reason != kernels.TABLE_FULL and state["row_count"]:
                    yield out[: state["row_count"]]
                    state["row_count"] = 0
            if reason not in (kernels.PARTIAL, kernels.END) or at_end:
                break
            # A batch larger than the window: look again through a larger one.
            length = usual if cursor else length * 2
            position += cursor
        if reason == kernels.ZEROS and not _is_zero(windows, int(state["valid_bytes"])):
            reason = kernels.BAD_SIZE
        self.end = self._end(state, windows.size, self._finding(state, windows.size, reason))

    def _walk(self, window: np.ndarray, cursor: int, position: int, state: np.void, out: np.ndarray) -> tuple[int, int]:
        folding = self._folding
        if folding is None:
            stop_at, slots, deltas = kernels.NO_CUT, kernels.NO_SLOTS, _NO_DELTAS
        else:
            stop_at, (slots, deltas) = folding.stop_at, folding.producers.table
            state["producer_count"] = len(folding.producers)
        cursor, reason = kernels.walk(window, cursor, position, stop_at, self._check_crc, state, out, slots, deltas)
        if folding is not None:
            folding.producers.extended_to(int(state["producer_count"]))
            if reason == kernels.TABLE_FULL:
                folding.producers.grow()
            elif reason == kernels.CUT:
                folding.cut()
        return cursor, reason

    def _finding(self, state: np.void, size: int, reason: int) -> Finding | None:
        closed, valid_bytes = self._next_base_offset is not None, int(state["valid_bytes"])
        if reason in _MESSAGES:
            kind, message = _MESSAGES[reason]
            return Finding(
                kind, self._path, valid_bytes, message.format(expected=state["expected"], found=state["found"])
            )
        if not closed:
            return None
        if size == 0:
            return Finding(FindingKind.EMPTY_SEGMENT, self._path, -1, "0 bytes in a closed segment")
        if valid_bytes < size:
            message = f"the last batch is cut: {size - valid_bytes} bytes left over in a closed segment"
            return Finding(FindingKind.TRUNCATED_SEGMENT, self._path, valid_bytes, message)
        if state["last_offset"] >= (self._next_base_offset or 0):
            message = f"last offset expected below {self._next_base_offset}, found {state['last_offset']}"
            return Finding(FindingKind.OFFSETS_OVERLAP, self._path, -1, message)
        return None

    def _end(self, state: np.void, size: int, finding: Finding | None) -> SegmentEnd:
        return SegmentEnd(
            size=size,
            valid_bytes=int(state["valid_bytes"]),
            batch_count=int(state["batch_count"]),
            legacy_count=int(state["legacy_count"]),
            last_offset=int(state["last_offset"]),
            first_timestamp=int(state["first_timestamp"]),
            max_timestamp=int(state["max_timestamp"]),
            has_gaps=bool(state["is_missing_records"] or state["is_missing_batches"]),
            finding=finding,
        )


def load_kernels() -> None:
    """Load the compiled walk, a third of a second, before there is anything to scan."""
    state, window = np.zeros(1, kernels.WALK_DTYPE)[0], np.frombuffer(b"", np.uint8)
    kernels.walk(window, 0, 0, kernels.NO_CUT, True, state, kernels.NO_ROWS, kernels.NO_SLOTS, _NO_DELTAS)


def _is_zero(windows: Windows, position: int) -> bool:
    while position < windows.size:
        window = windows.read(position, WINDOW_BYTES)
        if window.any():
            return False
        if window.size == 0:  # cut off meanwhile
            return True
        position += window.size
    return True
