"""The indexes of a segment that is in memory, checked as IndexCheck checks a file."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes, IndexCheck


def check_indexes(
    segment: bytes, base_offset: int, found: FoundIndexes, open_transactions: np.ndarray | None = None
) -> CheckedIndexes:
    """The indexes of a segment that is in memory; see IndexCheck."""
    check = IndexCheck(base_offset, found, open_transactions)
    check.update(memoryview(segment))
    return check.finish()
