"""A segment checked while its bytes go by: the same end, digest and rows as a scan of the file, and no second read.

    check = SegmentCheck(base_offset, next_base_offset)
    for piece in pieces:            # consecutive, of any sizes
        check.update(piece)
        if check.finding: …         # damage is known as soon as its batch has passed
    end = check.finish()            # end.digest is that of the decode, or these are other bytes

A piece is walked where it lies; only a batch that lies in several pieces is copied together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD, SMALLEST_READ
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.segment_walk import SegmentEnd, SegmentWalk

_GOES_ON = (kernels.PARTIAL, kernels.END)
_LARGEST_ENTRY = (1 << 31) + LOG_OVERHEAD


class SegmentCheck:
    """The check of one stream; memory is that of the largest batch that lies in several pieces."""

    def __init__(
        self,
        base_offset: int,
        next_base_offset: int | None,
        *,
        check_crc: bool = True,
        on_rows: Callable[[np.ndarray], None] | None = None,
        size: int | None = None,
        name: str = "",
    ) -> None:
        """Begin at the segment's first byte.

        Args:
            base_offset: the number in the file's name.
            next_base_offset: base offset of the next segment; None for the active segment.
            on_rows: receives decoded rows (RECORD_BATCH_DTYPE), each array valid during the call.
            size: bytes that the stream will have, where they are known: a batch that claims more of them is then not
                waited for in memory.
            name: of the file, for findings.
        """
        self._walk = SegmentWalk(
            name,
            base_offset=base_offset,
            next_base_offset=next_base_offset,
            check_crc=check_crc,
            keep_rows=on_rows is not None,
        )
        self._walk.make_room(_LARGEST_ENTRY)
        self._on_rows = on_rows
        self._pending = bytearray()
        self._walked = 0
        self._reason = kernels.END
        self._expected_size = size
        self._is_cut = False
        self.size = 0

    def update(self, piece: bytes | bytearray | memoryview) -> None:
        """Take the next bytes; after damage they are only counted."""
        view = memoryview(piece).cast("B")
        self.size += len(view)
        while len(view) and self._reason in _GOES_ON and not self._is_cut:
            if self._pending:
                view = self._complete(view)
                continue
            walked = self._step(view)
            if self._reason in _GOES_ON:
                self._pending += view[walked:]
            return
        if self._reason == kernels.ZEROS and np.frombuffer(view, np.uint8).any():
            self._reason = kernels.BAD_SIZE

    def _complete(self, view: memoryview) -> memoryview:
        """Add to the pending bytes what their entry needs; the rest of the view."""
        pending = self._pending
        wanted = SMALLEST_READ
        if len(pending) >= LOG_OVERHEAD:
            wanted = max(wanted, LOG_OVERHEAD + int.from_bytes(pending[8:12], "big", signed=True))
        if self._expected_size is not None and self._walked + wanted > self._expected_size:
            self._is_cut = True
        taken = max(wanted - len(pending), 1)
        pending += view[:taken]
        view = view[taken:]
        if len(pending) >= wanted:
            # Not a copy, which a large batch would double; and whose memory is looked at cannot shrink.
            self._pending = bytearray()
            walked = self._step(memoryview(pending))
            self._pending += memoryview(pending)[walked:]
        return view

    def _step(self, view: memoryview) -> int:
        """Walk over the bytes behind what was walked; how many of them were."""
        window = np.frombuffer(view, np.uint8)
        window.flags.writeable = False
        for rows in self._walk.over(window, self._walked):
            if self._on_rows is not None:
                self._on_rows(rows)
        self._reason = self._walk.reason
        self._walked += self._walk.cursor
        if self._reason == kernels.ZEROS and window[self._walk.cursor :].any():
            self._reason = kernels.BAD_SIZE
        return self._walk.cursor

    @property
    def finding(self) -> Finding | None:
        """Damage that has passed, None while there is none; a cut last batch shows in `finish` only."""
        return None if self._reason in (*_GOES_ON, kernels.ZEROS) else self._walk.finding(self.size, self._reason)

    def finish(self) -> SegmentEnd:
        """Return how the segment ended; call it once, after its last byte."""
        return self._walk.end(self.size, self._walk.finding(self.size, self._reason))
