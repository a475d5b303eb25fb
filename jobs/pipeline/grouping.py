"""Rows of one key at a time, in order, to a function of Arrow batches."""

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
    """Run `task` once for each key and return its batches. It gets the key's rows in batches, sorted by `order`.

    Spark holds no group whole. It does not promise the order, which one exchange and one sort give; a task that relies
    on it checks it (partition_input).

    Args:
        tasks: the most that run at once; None for the session's number.
    """

    # By these hints Spark knows that the function takes batches: without them it gets each group as one table.
    def run(_: tuple[Any, ...], group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(group)

    spread = rows.repartition(*keys) if tasks is None else rows.repartition(tasks, *keys)
    return spread.sortWithinPartitions(*keys, *order).groupBy(*keys).applyInArrow(run, schema)


BatchFunction = Callable[[Iterable[pa.RecordBatch]], Batches]


def of_batches(task: Callable[[Batches], Batches]) -> BatchFunction:
    """Return a task, which is an object, as a function: mapInArrow takes nothing else."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    return run


def matching(topics: re.Pattern[str] | None) -> BatchFunction:
    """For mapInArrow: the rows whose column `topic` is selected."""

    def wanted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(
                pa.array((matches_topic(str(topic), topics) for topic in batch["topic"].to_pylist()), pa.bool_())
            )

    return wanted


def of_topics(rows: DataFrame, topics: re.Pattern[str] | None) -> DataFrame:
    """Rows (with a column `topic`) of the selected topics; each name is looked at once."""
    if topics is None:
        return rows
    names = rows.select("topic").distinct().mapInArrow(matching(topics), "topic string")
    return rows.join(F.broadcast(names), on="topic", how="left_semi")
