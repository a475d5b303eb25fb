"""Sorted rows as groups: record batches in, one stream of batches for each key out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Key = tuple[pa.Scalar, ...]


def groups(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> Iterator[tuple[Key, Iterator[pa.RecordBatch]]]:
    """(key, batches of its rows) for each run of rows that have the same values in the columns `keys`, none null.

    Nothing is copied, and one batch is held at a time. A group ends when the next one is asked for, as in
    itertools.groupby. Rows that are sorted by `keys` give one group a key.
    """
    for key, pieces in groupby(_pieces(batches, keys), key=itemgetter(0)):
        yield key, map(itemgetter(1), pieces)


def _pieces(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [batch.column(name) for name in keys]
        is_new = np.zeros(batch.num_rows - 1, np.bool_)
        for column in columns:
            is_new |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(is_new) + 1
        for start, end in pairwise([0, *starts.tolist(), batch.num_rows]):
            yield tuple(column[start] for column in columns), batch.slice(start, end - start)
