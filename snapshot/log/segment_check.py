"""Check a segment while its bytes are streamed: the same end, digest and rows as a scan, without a second read.

    check = SegmentCheck(base_offset, next_base_offset)
    for piece in pieces:            # consecutive, of any sizes
        check.update(piece)
        if check.finding: …         # damage is known as soon as its batch was passed
    end = check.finish()            # end.digest equals the decode's, unless the bytes differ

Pieces are not copied, except for entries that span several pieces: these are joined in a buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD, SMALLEST_READ
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.segment_walk import SegmentEnd, SegmentWalk

_GOES_ON = (kernels.PARTIAL, kernels.END)
_LARGEST_ENTRY = (1 << 31) + LOG_OVERHEAD
_LENGTH = struct.Struct(">8xi")

# Takes (uint8 buffer, position of its first byte in the segment); gives the bytes that it took, all up to the entry
# that is not whole, or None when it wants no more.
Consumer = Callable[[np.ndarray, int], int | None]


class EntryFeed:
    """Splits the stream of one segment into entries for one consumer; it buffers entries that span several pieces.

    Attributes:
        position: byte position in the segment up to which entries were consumed.
        is_over: the consumer stopped, or an entry claims more bytes than the segment has.
    """

    def __init__(self, consume: Consumer, size: int | None = None) -> None:
        """Take the consumer; `size` is the byte size of the segment, if known, so that no more bytes are awaited."""
        self._consume, self._size = consume, size
        self._begun = bytearray()
        self.position = 0
        self.is_over = False

    @property
    def left_over(self) -> int:
        """Return the number of buffered bytes of an incomplete entry."""
        return len(self._begun)

    def update(self, piece: memoryview) -> memoryview:
        """Consume the next bytes of the segment, and return the rest that was not consumed; `piece` is not kept."""
        while self._begun and not self.is_over and len(piece):
            taken = max(self._wanted(), 1)
            self._begun += piece[:taken]
            piece = piece[taken:]
            # A complete header is checked before its entry is: a damaged length may claim bytes that never come.
            if self._wanted() == 0 or len(self._begun) == SMALLEST_READ:
                # The buffer is replaced, not copied: a copy would double the memory of a large batch, and a bytearray
                # with a view cannot shrink.
                whole, self._begun = self._begun, bytearray()
                self._take(np.frombuffer(whole, np.uint8))
        if len(piece) and not self.is_over:
            self._take(np.frombuffer(piece, np.uint8))
            return piece[:0]
        return piece

    def _wanted(self) -> int:
        """Return the number of missing bytes of the buffered entry; of its header, if its length is not yet known."""
        have, wanted = len(self._begun), SMALLEST_READ
        if have >= SMALLEST_READ:
            wanted = max(wanted, LOG_OVERHEAD + int(_LENGTH.unpack_from(self._begun)[0]))
        if self._size is not None and self.position + wanted > self._size:
            self.is_over = True
        return max(wanted - have, 0)

    def _take(self, buffer: np.ndarray) -> None:
        buffer.flags.writeable = False
        taken = self._consume(buffer, self.position)
        if taken is None:
            self.is_over = True
            self._begun.clear()
            return
        self.position += taken
        self._begun += buffer[taken:].tobytes()


class SegmentCheck:
    """The check of one stream."""

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
            size: byte size of the stream, if known; a batch that claims more bytes is not buffered.
            name: name of the file, for findings.
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
        self._feed = EntryFeed(self._over, size)
        self._reason = kernels.END
        self.size = 0

    def update(self, piece: bytes | bytearray | memoryview) -> None:
        """Take the next bytes; after damage they are only counted."""
        view = memoryview(piece).cast("B")
        self.size += len(view)
        left = self._feed.update(view)
        if self._reason == kernels.ZEROS and np.frombuffer(left, np.uint8).any():
            self._reason = kernels.BAD_SIZE

    def _over(self, window: np.ndarray, position: int) -> int | None:
        for rows in self._walk.over(window, position):
            if self._on_rows is not None:
                self._on_rows(rows)
        self._reason = self._walk.reason
        if self._reason == kernels.ZEROS and window[self._walk.cursor :].any():
            self._reason = kernels.BAD_SIZE
        return self._walk.cursor if self._reason in _GOES_ON else None

    @property
    def finding(self) -> Finding | None:
        """Return the damage found so far, or None; only `finish` finds a truncated last batch."""
        return None if self._reason in (*_GOES_ON, kernels.ZEROS) else self._walk.finding(self.size, self._reason)

    def finish(self) -> SegmentEnd:
        """Return how the segment ended; call it once, after its last byte."""
        return self._walk.end(self.size, self._walk.finding(self.size, self._reason))
