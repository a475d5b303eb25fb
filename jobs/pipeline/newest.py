"""The newest rows of a table: the one place that decides which rows count."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window


def newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keep the rows of the greatest `run` for each key."""
    window = Window.partitionBy(*key)
    return rows.withColumn("_newest", F.max("run").over(window)).where("run = _newest").drop("_newest")
