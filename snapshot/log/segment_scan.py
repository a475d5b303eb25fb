"""One segment file -> decoded batches by window, and how the file ended.

A partial tail is normal in the active segment: the broker was writing, or crashed and will cut it. In a closed segment
it is damage. Damage ends the scan where a broker's recovery would cut the file.

What checks a segment while it is sent sees it in the pieces of the upload: the whole entries of a piece are handed on
where they lie, and only the entry that a piece ends in is put together in a buffer of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np

from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD, SMALLEST_READ
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import unreadable
from tiersnap.snapshot.log.segment_walk import Folding, SegmentEnd, SegmentWalk
from tiersnap.snapshot.log.windows import WINDOW_BYTES, Windows, open_windows

__all__ = ["Folding", "SegmentEnd", "SegmentScan"]


class SegmentScan:
    """Iterate once for the decoded rows (RECORD_BATCH_DTYPE; each array is valid until the next), then read `end`."""

    def __init__(
        self,
        filesystem: FileSystem,
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
        self._is_closed = next_base_offset is not None
        self._window_bytes = window_bytes
        self._walk = SegmentWalk(
            path,
            base_offset=base_offset,
            next_base_offset=next_base_offset,
            check_crc=check_crc,
            keep_rows=keep_rows,
            folding=folding,
        )
        self.end: SegmentEnd

    def __iter__(self) -> Iterator[np.ndarray]:
        size = 0
        try:
            with closing(open_windows(self._filesystem, self._path, may_shrink=not self._is_closed)) as windows:
                size = windows.size
                yield from self._scan(windows)
        except OSError as error:
            self.end = self._walk.end(size, unreadable(self._path, error))

    def _scan(self, windows: Windows) -> Iterator[np.ndarray]:
        walk = self._walk
        walk.make_room(windows.size)
        usual = min(self._window_bytes, windows.best_bytes)
        position, length, reason = 0, usual, kernels.END
        while position < windows.size:
            window = windows.read(position, length)
            at_end = window.size < length or position + window.size >= windows.size
            yield from walk.over(window, position)
            cursor, reason = walk.cursor, walk.reason
            if reason not in (kernels.PARTIAL, kernels.END) or at_end:
                break
            # A batch larger than the window: look again through a larger one.
            length = usual if cursor else length * 2
            position += cursor
        if reason == kernels.ZEROS and not _is_zero(windows, walk.valid_bytes):
            reason = kernels.BAD_SIZE
        self.end = walk.end(windows.size, walk.finding(windows.size, reason))


def _is_zero(windows: Windows, position: int) -> bool:
    while position < windows.size:
        window = windows.read(position, WINDOW_BYTES)
        if window.any():
            return False
        if window.size == 0:  # cut off meanwhile
            return True
        position += window.size
    return True


_LENGTH = struct.Struct(">8xi")

# Takes (uint8 buffer, position of its first byte in the segment); gives the bytes that it took, all up to the entry
# that is not whole, or None when it wants no more.
Consumer = Callable[[np.ndarray, int], int | None]


class EntryFeed:
    """The entries of one segment for one consumer.

    Attributes:
        position: byte position in the segment up to which entries were taken.
        is_over: the consumer wanted no more.
    """

    def __init__(self, consume: Consumer) -> None:
        self._consume = consume
        self._begun = bytearray()
        self.position = 0
        self.is_over = False

    @property
    def left_over(self) -> int:
        """Bytes of an entry that has begun and is not whole."""
        return len(self._begun)

    def update(self, piece: memoryview) -> None:
        """Go on with the next bytes of the segment; `piece` is not kept."""
        start = 0
        while self._begun and not self.is_over and start < len(piece):
            taken = piece[start : start + max(self._wanted(), 1)]
            self._begun += taken
            start += len(taken)
            if self._wanted() == 0:
                whole, self._begun = self._begun, bytearray()
                self._take(np.frombuffer(whole, np.uint8))
        if start < len(piece) and not self.is_over:
            self._take(np.frombuffer(piece, np.uint8)[start:])

    def _wanted(self) -> int:
        """Bytes that are missing of the entry that has begun; of its first bytes where the length is not known."""
        have = len(self._begun)
        if have < SMALLEST_READ:
            return SMALLEST_READ - have
        (length,) = _LENGTH.unpack_from(self._begun)
        return max(LOG_OVERHEAD + int(length) - have, 0)

    def _take(self, buffer: np.ndarray) -> None:
        taken = self._consume(buffer, self.position)
        if taken is None:
            self.is_over = True
            self._begun.clear()
            return
        self.position += taken
        self._begun += buffer[taken:].tobytes()
