"""Decode a segment file window by window, and report where its valid entries end.

A partial tail is normal in the active segment: the broker is writing, or it crashed and truncates the tail at its next
start. In a closed segment, a partial tail is damage. Damage ends the scan at the byte at which a broker's recovery
would truncate the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import unreadable
from tiersnap.snapshot.log.segment_walk import Folding, SegmentEnd, SegmentWalk
from tiersnap.snapshot.log.windows import WINDOW_BYTES, Windows, is_zero, open_windows

if TYPE_CHECKING:
    from tiersnap.snapshot.log.log_dir import Segment

__all__ = ["Folding", "SegmentEnd", "SegmentScan"]


@dataclass
class SegmentScan:
    """An iterator over arrays of decoded batches (RECORD_BATCH_DTYPE) of a segment file.

    An array is valid until the next one is requested. After the iteration, `end` contains the result.
    """

    filesystem: FileSystem
    path: str
    _: KW_ONLY
    base_offset: int  # the number in the file's name
    next_base_offset: int | None  # base offset of the next segment; None for the active segment
    check_crc: bool = True
    keep_rows: bool = True  # False yields no rows, which is faster if the caller only folds or checks
    folding: Folding | None = None  # receives the batches in the same pass
    window_bytes: int = WINDOW_BYTES
    end: SegmentEnd = field(init=False)

    @classmethod
    def of(
        cls,
        filesystem: FileSystem,
        segment: Segment,
        *,
        check_crc: bool = True,
        keep_rows: bool = True,
        folding: Folding | None = None,
    ) -> SegmentScan:
        """Create a scan of a listed segment. The file is opened when the iteration begins."""
        return cls(
            filesystem,
            segment.log.path,
            base_offset=segment.base_offset,
            next_base_offset=segment.next_base_offset,
            check_crc=check_crc,
            keep_rows=keep_rows,
            folding=folding,
        )

    def __post_init__(self) -> None:
        self._walk = SegmentWalk(
            self.path,
            base_offset=self.base_offset,
            next_base_offset=self.next_base_offset,
            check_crc=self.check_crc,
            keep_rows=self.keep_rows,
            folding=self.folding,
        )

    def __iter__(self) -> Iterator[np.ndarray]:
        size = 0
        try:
            with closing(open_windows(self.filesystem, self.path, may_shrink=self.next_base_offset is None)) as windows:
                size = windows.size
                yield from self._scan(windows)
        except OSError as error:
            self.end = self._walk.end(size, unreadable(self.path, error))

    def _scan(self, windows: Windows) -> Iterator[np.ndarray]:
        walk = self._walk
        walk.make_room(windows.size)
        usual = min(self.window_bytes, windows.best_bytes)
        position, length, reason = 0, usual, kernels.END
        while position < windows.size:
            window = windows.read(position, length)
            at_end = window.size < length or position + window.size >= windows.size
            yield from walk.over(window, position)
            cursor, reason = walk.cursor, walk.reason
            if reason not in (kernels.PARTIAL, kernels.END) or at_end:
                break
            # If nothing was consumed, the batch is larger than the window. Read a larger window.
            length = usual if cursor else length * 2
            position += cursor
        if reason == kernels.ZEROS and not is_zero(windows, walk.valid_bytes, windows.size):
            reason = kernels.BAD_SIZE
        self.end = walk.end(windows.size, walk.finding(windows.size, reason))
