"""The replica of a partition that counts: the one that the user names, or that the cluster says leads."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY


def led(listed: DataFrame, leaders: Sequence[str]) -> DataFrame:
    """Keep a partition's replicas in the log directories `leaders`; all if none is there."""
    is_leader = F.col("log_dir").isin(list(leaders))
    is_known = F.max(is_leader).over(Window.partitionBy("topic", "partition"))
    return listed.withColumn("_is_led", is_leader | ~is_known).where("_is_led").drop("_is_led")


def led_by_cluster(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Keep a partition's replica on a disk of its leader (rows of LEADERS); none if that is not there."""
    return _marked(listed, leaders).where("_leads or _replicas = 1").select(*listed.columns)


def unled(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """The partitions that `led_by_cluster` leaves out: topic, partition, replica_count and `leader` of `leaders`."""
    left_out = _marked(listed, leaders).where("_replicas > 1").groupBy("topic", "partition", "leader")
    counts = left_out.agg(F.count("*").alias("replica_count"), F.max("_leads").alias("is_led"))
    return counts.where("not is_led").select("topic", "partition", "replica_count", "leader")


def still_led(found: DataFrame, listed: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """Return the listed partitions (PARTITION_KEY), and those found without a known leader, which may lead here."""
    there = listed.select(*PARTITION_KEY)
    if leaders is None:
        return there
    left_alone = found.join(unled(found, leaders), on=["topic", "partition"], how="left_semi")
    return there.unionByName(left_alone.select(*PARTITION_KEY))


def _marked(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Rows of LISTED with `leader`, `_leads` and, of their partition, `_replicas`."""
    replicas = F.count("*").over(Window.partitionBy("topic", "partition"))
    leads = F.coalesce(F.array_contains("log_dirs", F.col("log_dir")), F.lit(False))
    marked = listed.join(leaders, on=["topic", "partition"], how="left")
    return marked.withColumns({"_leads": leads, "_replicas": replicas})
