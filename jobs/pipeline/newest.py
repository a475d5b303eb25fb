"""The newest rows of a table. All readers of the tables use these functions to choose the valid rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.facts import FACT_KEY
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


def newest(rows: DataFrame, key: Sequence[str | Column]) -> DataFrame:
    """Return, for each key, all rows of the newest run. Use it if a run writes several rows per key to the table."""
    last = F.max("run").over(Window.partitionBy(*key))
    return rows.withColumn("_newest", last).where(F.col("run") == F.col("_newest")).drop("_newest")


def current_facts(partitions: DataFrame) -> DataFrame:
    """Return the newest row of each fact in the table `partitions`, without rows in which `has_ended` is true."""
    # With a struct, Spark cannot push a condition on `kind` down to the read. So queries for all kinds share one read.
    fact = F.struct(*(name for name in FACT_KEY if name not in PARTITION_KEY))
    return newest(partitions, (*PARTITION_KEY, fact)).where(~F.col("has_ended"))


def newest_row(rows: DataFrame, key: Sequence[str], order: Column | None = None) -> DataFrame:
    """Return for each key the row with the largest `order`. If `order` is None, use the column `run`.

    Each task keeps one complete row per key in memory, so select the needed columns first.
    """
    last = F.max_by(F.struct("*"), F.col("run") if order is None else order)
    return rows.groupBy(*key).agg(last.alias("_row")).select("_row.*")


def newest_among(
    rows: DataFrame, key: Sequence[str], keys: DataFrame, *more: str, sent: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return the rows of `newest` whose keys are in `keys`.

    Spark first reads only the key columns and `run`. It then reads the other columns of the newest rows.

    Args:
        rows: rows of a table.
        key: columns of the table's key.
        keys: rows with some of the columns in `key`, and with the columns in `more`.
        more: other columns of `keys` to add to the result.
        sent: prepares a DataFrame of keys for a join, such as F.broadcast.
    """
    given = [name for name in key if name in keys.columns]
    runs = rows.select(*key, "run").join(sent(keys), on=given).groupBy(*key, *more).agg(F.max("run").alias("run"))
    return rows.join(sent(runs), on=[*key, "run"])


def current_facts_among(
    partitions: DataFrame, keys: DataFrame, *more: str, sent: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return the rows of `current_facts` whose partitions are in `keys`; see `newest_among` for the arguments."""
    # An equality join never matches nulls, so replace a null offset.
    offset = F.coalesce("snapshot_offset", "base_offset", F.lit(-1))
    key = (*PARTITION_KEY, "kind", "part", "_offset")
    rows = newest_among(partitions.withColumn("_offset", offset), key, keys, *more, sent=sent)
    return rows.where(~F.col("has_ended"))


def superseded(rows: DataFrame, key: Sequence[str], order: Column | None = None) -> DataFrame:
    """Return for each key all rows except those with the largest `order`. If `order` is None, use the column `run`."""
    place = F.col("run") if order is None else order
    last = F.max(place).over(Window.partitionBy(*key))
    return rows.withColumn("_last", last).where(place < F.col("_last")).drop("_last")
