"""Every batch of a segment, while its bytes pass by in pieces of any length: CRCs, sizes, offsets in range."""

from __future__ import annotations

import numpy as np

from tiersnap.remote_storage.errors import CorruptSegmentError
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.entry_feed import EntryFeed
from tiersnap.snapshot.state.producer_state import DELTA_DTYPE

_NO_DELTAS = np.empty(0, DELTA_DTYPE)
_GOES_ON = (kernels.END, kernels.PARTIAL)
_DAMAGE = {
    kernels.BAD_SIZE: "the size of a batch is wrong",
    kernels.ZEROS: "zeros instead of a batch",
    kernels.BAD_MAGIC: "no such magic",
    kernels.BAD_CRC: "a batch with a wrong CRC",
    kernels.BAD_OFFSET: "a batch with an offset that is not above the one before",
    kernels.BAD_CONTROL: "a control batch that no broker can read",
}


class BatchCheck:
    """The batches of the segment [base_offset, next_base_offset)."""

    def __init__(self, base_offset: int, next_base_offset: int) -> None:
        self._base_offset = base_offset
        self._next_base_offset = next_base_offset
        self._feed = EntryFeed(self._consume)
        self._state = np.zeros(1, kernels.WALK_DTYPE)[0]
        self._state["last_offset"] = base_offset - 1
        self._reason = kernels.END

    def update(self, piece: memoryview) -> None:
        """Go on with the next bytes of the segment; `piece` is not kept.

        Raises:
            CorruptSegmentError: a batch in them is damaged.
        """
        self._feed.update(piece)
        if self._reason not in _GOES_ON:
            raise self._corrupt(_DAMAGE[self._reason])

    def finish(self) -> None:
        """All bytes were given.

        Raises:
            CorruptSegmentError: the last batch is cut, or ends at or above the next segment's base offset.
        """
        if self._feed.left_over:
            raise self._corrupt("the last batch is cut")
        last_offset = int(self._state["last_offset"])
        if last_offset >= self._next_base_offset:
            raise self._corrupt(f"offset {last_offset} lies in the next segment, from {self._next_base_offset} on")

    def _consume(self, buffer: np.ndarray, position: int) -> int | None:
        taken, self._reason = kernels.walk(
            buffer, 0, position, kernels.NO_CUT, True, self._state, kernels.NO_ROWS, kernels.NO_SLOTS, _NO_DELTAS
        )
        return taken if self._reason in _GOES_ON else None

    def _corrupt(self, what: str) -> CorruptSegmentError:
        position = int(self._state["valid_bytes"])
        return CorruptSegmentError(
            f"segment {self._base_offset} at byte {position}: {what}",
            hint="tiersnap dump FILE shows the place; restore the segment from another replica",
            base_offset=self._base_offset,
            position=position,
        )
