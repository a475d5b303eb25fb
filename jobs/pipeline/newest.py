"""The newest rows of a table: the one place that decides which rows count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.facts import FACT_KEY
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY


def newest(rows: DataFrame, key: Sequence[str | Column]) -> DataFrame:
    """Return all rows of the greatest `run` of each key, for tables in which a run writes several rows of a key."""
    last = F.max("run").over(Window.partitionBy(*key))
    return rows.withColumn("_newest", last).where(F.col("run") == F.col("_newest")).drop("_newest")


def current_facts(partitions: DataFrame) -> DataFrame:
    """Rows of `partitions` -> the facts that hold: of each fact the newest row, if the fact has not ended."""
    # One value, below which no condition on the kind is pushed: a query about several kinds reads the table once.
    fact = F.struct(*(name for name in FACT_KEY if name not in PARTITION_KEY))
    return newest(partitions, (*PARTITION_KEY, fact)).where(~F.col("has_ended"))


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
        keys: rows with columns of `key` and `more`.
        sent: prepares keys for a join.
    """
    given = [name for name in key if name in keys.columns]
    runs = rows.select(*key, "run").join(sent(keys), on=given).groupBy(*key, *more).agg(F.max("run").alias("run"))
    return rows.join(sent(runs), on=[*key, "run"])


def current_facts_among(
    partitions: DataFrame, keys: DataFrame, *more: str, sent: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return `current_facts` of the partitions that are given, as `newest_among` does."""
    # A join needs a key without nulls.
    offset = F.coalesce("snapshot_offset", "base_offset", F.lit(-1))
    key = (*PARTITION_KEY, "kind", "part", "_offset")
    rows = newest_among(partitions.withColumn("_offset", offset), key, keys, *more, sent=sent)
    return rows.where(~F.col("has_ended"))


def superseded(rows: DataFrame, key: Sequence[str], order: Column | None = None) -> DataFrame:
    """Return the rows that are not of the greatest `order` (the run if None) of their key."""
    place = F.col("run") if order is None else order
    last = F.max(place).over(Window.partitionBy(*key))
    return rows.withColumn("_last", last).where(place < F.col("_last")).drop("_last")
