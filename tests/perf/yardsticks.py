"""Plain loops that do the least a hot loop of the product could do: what `bench-check` measures them against."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def hop(buffer: np.ndarray, headers: np.ndarray) -> int:
    """Copy the 61 header bytes of each batch into `headers`, round and round; returns how many."""
    position = count = 0
    while position + 61 <= buffer.size:
        row = count % headers.shape[0]
        for byte in range(61):
            headers[row, byte] = buffer[position + byte]
        length = 0
        for byte in range(8, 12):
            length = length * 256 + buffer[position + byte]
        position += 12 + length
        count += 1
    return count


@numba.njit(cache=True)
def last_of_each(ids: np.ndarray, values: np.ndarray, last: np.ndarray) -> None:
    """The last value of each id, ids being small numbers."""
    for row in range(ids.size):
        last[ids[row]] = values[row]


@numba.njit(cache=True)
def scatter(ids: np.ndarray, source: np.ndarray, target: np.ndarray) -> None:
    """Rows (int64, 8 of them) into the places that their ids name."""
    for row in range(ids.size):
        for column in range(8):
            target[ids[row], column] = source[row, column]
