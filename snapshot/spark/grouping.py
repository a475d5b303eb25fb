"""Rows of one key at a time, in order, to a function of Arrow batches.

`groupBy(…).applyInArrow` would say the same. Up to Spark 4.1 each of its tasks leaves the first buffers of a writer
allocated that it never uses (RowInputArrowPythonRunner with GroupedPythonArrowInput closes the writers of its groups,
and not its own): with nested rows 5 MB a task, until the executor has no direct memory left. So Spark brings the rows
of a key together and sorts them, and the task sees where the key changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tiersnap.snapshot.tasks.groups import Key, groups

Batches = Iterator[pa.RecordBatch]


def by_key(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    function: Callable[[Key, Batches], Batches],
    schema: StructType,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """What `function` gives for each key and its rows, which come sorted by `order`.

    Args:
        tasks: no more of them at once; None for as many as the session makes.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        for key, group in groups(batches, keys):
            yield from function(key, group)

    # By a hash of the keys and not by the keys: where rows lie by the keys already, after a join say, Spark leaves the
    # shuffle out, and may then read what came from that join without one (OptimizeShuffleWithLocalRead).
    place = F.xxhash64(*keys)
    spread = rows.repartition(place) if tasks is None else rows.repartition(tasks, place)
    return spread.sortWithinPartitions(*keys, *order).mapInArrow(run, schema)
