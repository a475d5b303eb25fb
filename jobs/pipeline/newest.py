"""The newest rows of a table: the one place that decides which rows count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window


def newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return all rows of the greatest `run` of each key, for tables in which a run writes several rows of a key."""
    last = F.max("run").over(Window.partitionBy(*key))
    return rows.withColumn("_newest", last).where(F.col("run") == F.col("_newest")).drop("_newest")


def newest_row(rows: DataFrame, key: Sequence[str], order: Column | None = None) -> DataFrame:
    """Return the row of the greatest `order` (the run if None) of each key.

    Each task keeps one row of a key, so select first the columns that are needed.
    """
    last = F.max_by(F.struct("*"), F.col("run") if order is None else order)
    return rows.groupBy(*key).agg(last.alias("_row")).select("_row.*")


def newest_among(
    rows: DataFrame, key: Sequence[str], keys: DataFrame, *more: str, sent: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return `newest` of the keys that are given, with `more` of their columns.

    The runs are compared without the payload, which is then read only of the rows that are wanted.

    Args:
        keys: rows with the columns of `key` and `more`.
        sent: prepares keys for a join.
    """
    runs = rows.select(*key, "run").join(sent(keys), on=list(key)).groupBy(*key, *more).agg(F.max("run").alias("run"))
    return rows.join(sent(runs), on=[*key, "run"])


def superseded(rows: DataFrame, key: Sequence[str], order: Column | None = None) -> DataFrame:
    """Return the rows that are not of the greatest `order` (the run if None) of their key."""
    place = F.col("run") if order is None else order
    last = F.max(place).over(Window.partitionBy(*key))
    return rows.withColumn("_last", last).where(place < F.col("_last")).drop("_last")
