"""Rows of one key at a time, in order, to a function of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Key = tuple[Any, ...]  # of pyarrow's scalars
Batches = Iterator[pa.RecordBatch]


def by_key(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    function: Callable[[Key, Batches], Batches],
    schema: StructType | str,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Return what `function` gives for each key and its rows, which come in batches and sorted by `order`.

    Spark holds no group whole. It does not promise the order, which one exchange and one sort give; a function that
    relies on it checks it (tasks.partition_input).

    Args:
        tasks: no more of them at once; None for as many as the session makes.
    """

    # By these hints Spark knows that the function takes batches: without them it gets each group as one table.
    def run(key: Key, group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(key, group)

    spread = rows.repartition(*keys) if tasks is None else rows.repartition(tasks, *keys)
    return spread.sortWithinPartitions(*keys, *order).groupBy(*keys).applyInArrow(run, schema)
