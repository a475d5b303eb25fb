"""Check a segment while its bytes are streamed. End, digest and rows are the same as in a scan.

    check = SegmentCheck(base_offset, next_base_offset)
    for piece in pieces:            # consecutive, of any sizes
        check.update(piece)
        if check.finding: …         # damage is reported after the piece that contains it
    end = check.finish()            # end.digest equals the digest of a scan, unless the bytes differ

Pieces are not copied, except for the parts of an entry that spans several pieces: a buffer joins these parts.
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

# Called with (uint8 buffer, position of its first byte in the segment). Returns how many bytes it consumed, up to the
# first incomplete entry, or None to stop.
Consumer = Callable[[np.ndarray, int], int | None]


class EntryFeed:
    """A splitter that divides the stream of one segment into complete entries.

    It buffers entries that span several pieces.

    Attributes:
        position: byte position in the segment up to which entries were consumed.
        is_over: whether the consumer stopped, or an entry claims more bytes than the segment has.
    """

    def __init__(self, consume: Consumer, size: int | None = None) -> None:
        """Create a feed for `consume`. `size` is the segment's size in bytes, if known."""
        self._consume, self._size = consume, size
        self._begun = bytearray()
        self.position = 0
        self.is_over = False

    @property
    def left_over(self) -> int:
        """Return the number of buffered bytes of an incomplete entry."""
        return len(self._begun)

    def update(self, piece: memoryview) -> memoryview:
        """Consume the next bytes of the segment, and return the bytes that were not consumed.

        No reference to `piece` is kept.
        """
        while self._begun and not self.is_over and len(piece):
            taken = max(self._wanted(), 1)
            self._begun += piece[:taken]
            piece = piece[taken:]
            # Check a complete header before the entry is complete: a damaged length may claim bytes that never come.
            if self._wanted() == 0 or len(self._begun) == SMALLEST_READ:
                # Replace the buffer: a copy would double the memory for a large batch, and a bytearray with a view
                # cannot shrink.
                whole, self._begun = self._begun, bytearray()
                self._take(np.frombuffer(whole, np.uint8))
        if len(piece) and not self.is_over:
            self._take(np.frombuffer(piece, np.uint8))
            return piece[:0]
        return piece

    def _wanted(self) -> int:
        """Return how many bytes the buffered entry lacks, or how many its header lacks if the length is unknown."""
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
    """A check of one segment's stream."""

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
        """Create a check that expects the segment's first byte.

        Args:
            base_offset: the number in the file's name.
            next_base_offset: base offset of the next segment; None for the active segment.
            check_crc: whether to verify the CRC of each batch.
            on_rows: called with decoded rows (RECORD_BATCH_DTYPE); an array is valid only during the call.
            size: size of the stream in bytes, if known; a batch that claims more bytes is not buffered.
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
        """Check the next bytes. After damage, bytes are only counted."""
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
        """Return the damage found so far, or None. Only `finish` reports a truncated last batch."""
        if self._reason in (*_GOES_ON, kernels.ZEROS):
            return None
        return self._walk.finding(self.size, self._reason)

    def finish(self) -> SegmentEnd:
        """Return the result. Call this method once, after the last byte."""
        return self._walk.end(self.size, self._walk.finding(self.size, self._reason))
