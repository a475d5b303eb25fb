"""The compiled walk over bytes in memory."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.state.producer_state import DELTA_DTYPE


def walked(data: bytes, *, last_offset: int = -1, check_crc: bool = True) -> tuple[np.ndarray, int, int, np.void]:
    """Decoded rows, position after them, stop reason, state at the end."""
    state = np.zeros(1, kernels.WALK_DTYPE)[0]
    state["last_offset"] = last_offset
    out = np.empty(len(data) // rb.HEADER_LENGTH + 1, rb.RECORD_BATCH_DTYPE)
    none = np.empty(0, DELTA_DTYPE)
    window = np.frombuffer(data, np.uint8)
    position, reason = kernels.walk(window, 0, 0, kernels.NO_CUT, check_crc, state, out, kernels.NO_SLOTS, none)
    return out[: state["row_count"]], position, reason, state
