"""Rows of the topics that --topic selects, by Python's regular expressions: Spark's own are Java's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.snapshot.log.selection import matches_topic

Filter = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def matching(topics: re.Pattern[str] | None) -> Filter:
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
