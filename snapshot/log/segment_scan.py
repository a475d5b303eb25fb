"""One segment file -> decoded batches by window, and how the file ended.

A partial tail is normal in the active segment: the broker was writing, or crashed and will cut it. In a closed segment
it is damage. Damage ends the scan where a broker's recovery would cut the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import unreadable
from tiersnap.snapshot.log.segment_walk import Folding, SegmentEnd, SegmentWalk
from tiersnap.snapshot.log.windows import WINDOW_BYTES, Windows, is_zero, open_windows

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
        if reason == kernels.ZEROS and not is_zero(windows, walk.valid_bytes, windows.size):
            reason = kernels.BAD_SIZE
        self.end = walk.end(windows.size, walk.finding(windows.size, reason))
