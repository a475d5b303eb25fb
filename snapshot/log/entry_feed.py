"""Bytes of a segment in any pieces -> buffers that begin with a whole entry.

What checks a segment while it is sent sees it in the pieces of the upload, whose ends mean nothing. The whole entries
of a piece are handed on where they lie; only the entry that a piece ends in is put together in a buffer of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD, SMALLEST_READ

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
