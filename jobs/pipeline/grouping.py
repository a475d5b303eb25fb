"""Helpers that call functions with the rows of a DataFrame as Arrow batches, once per group or per Spark partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tiersnap.snapshot.log.selection import matches_topic

Batches = Iterator[pa.RecordBatch]


def by_key(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    task: Callable[[Batches], Batches],
    schema: StructType | str,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Run `task` once for each key and return its batches. The task gets the key's rows in batches, sorted by `order`.

    Spark never loads a complete group into memory. In practice the rows arrive in the order of `order`, but Spark does
    not guarantee it. So a task that relies on the order must check it, as partition_input does.

    Args:
        rows: any rows with the columns `keys` and `order`.
        keys: columns of the group.
        order: columns to sort each group by.
        task: called once per group.
        schema: schema of the batches that `task` returns.
        tasks: number of Spark tasks; None for spark.sql.shuffle.partitions.
    """

    # Spark reads these type hints: without them it would pass each group as one table instead of as batches.
    def run(_: tuple[Any, ...], group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(group)

    spread = rows.repartition(*keys) if tasks is None else rows.repartition(tasks, *keys)
    return spread.sortWithinPartitions(*keys, *order).groupBy(*keys).applyInArrow(run, schema)


BatchFunction = Callable[[Iterable[pa.RecordBatch]], Batches]


def of_batches(task: Callable[[Batches], Batches]) -> BatchFunction:
    """Return a function that calls the task object. mapInArrow accepts functions, but no callable objects."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    return run


def matching(topics: re.Pattern[str] | None) -> BatchFunction:
    """Return a function for mapInArrow that keeps the rows whose column `topic` matches."""

    def wanted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            matches = [matches_topic(str(topic), topics) for topic in batch["topic"].to_pylist()]
            yield batch.filter(pa.array(matches, pa.bool_()))

    return wanted


def of_topics(rows: DataFrame, topics: re.Pattern[str] | None) -> DataFrame:
    """Return the rows whose column `topic` matches `topics`; if that is None, return all rows."""
    if topics is None:
        return rows
    names = rows.select("topic").distinct().mapInArrow(matching(topics), "topic string")
    return rows.join(F.broadcast(names), on="topic", how="left_semi")
