"""The compiled walk over bytes in memory."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.segment_walk import tell_compressed_control
from tiersnap.snapshot.producer_fold import DELTA_DTYPE


def walked(data: bytes, *, last_offset: int = -1, check_crc: bool = True) -> tuple[np.ndarray, int, int, np.void]:
    """Decoded rows, position after them, stop reason, state at the end."""
    states = np.zeros(1, kernels.WALK_DTYPE)
    state: np.void = states[0]
    state["last_offset"], state["control_position"] = last_offset, -1
    out = np.empty(len(data) // rb.HEADER_LENGTH + 1, rb.RECORD_BATCH_DTYPE)
    none = np.empty(0, DELTA_DTYPE)
    window = np.frombuffer(data, np.uint8)
    position, reason = 0, kernels.COMPRESSED_CONTROL
    while reason == kernels.COMPRESSED_CONTROL:
        position, reason = kernels.walk(
            window, position, 0, kernels.NO_CUT, check_crc, states, out, kernels.NO_SLOTS, none
        )
        if reason == kernels.COMPRESSED_CONTROL:
            tell_compressed_control(state, window[position:])
    return out[: state["row_count"]], position, reason, state
