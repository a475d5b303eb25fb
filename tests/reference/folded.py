"""The fold of batches, as tests ask for it."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.producer_fold import ProducerFold


def fold(rows: np.ndarray) -> np.ndarray:
    """Deltas (DELTA_DTYPE, ascending producer id) of decoded batches (RECORD_BATCH_DTYPE, offset order)."""
    producers = ProducerFold()
    producers.add_batches(rows)
    return producers.deltas()
