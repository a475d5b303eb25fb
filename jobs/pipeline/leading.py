"""Choose one replica per partition: the replica that --leader names, or the replica of the cluster's leader."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


def led(listed: DataFrame, leaders: Sequence[str]) -> DataFrame:
    """Return the replicas in the log directories `leaders`.

    If a partition has no replica in these directories, return all replicas of the partition.
    """
    is_leader = F.col("log_dir").isin(list(leaders))
    is_known = F.max(is_leader).over(Window.partitionBy("topic", "partition"))
    return listed.withColumn("_is_led", is_leader | ~is_known).where("_is_led").drop("_is_led")


def led_by_cluster(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Return one replica per partition. If the sources contain several, return the leader's replica.

    If a partition has several replicas in the sources, but not the leader's replica, it is left out.

    Args:
        listed: the listed partitions (schema LISTED).
        leaders: the leaders (schema LEADERS).
    """
    return _marked(listed, leaders).where("_leads or _replicas = 1").select(*listed.columns)


def unled(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Return the partitions that `led_by_cluster` leaves out: `topic`, `partition`, `replica_count`, `leader`."""
    left_out = _marked(listed, leaders).where("_replicas > 1").groupBy("topic", "partition", "leader")
    counts = left_out.agg(F.count("*").alias("replica_count"), F.max("_leads").alias("is_led"))
    return counts.where("not is_led").select("topic", "partition", "replica_count", "leader")


def still_led(found: DataFrame, listed: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """Return PARTITION_KEY of the chosen replicas, and of all replicas of the partitions that `unled` returns.

    Args:
        found: all replicas (schema LISTED).
        listed: the chosen replicas (schema LISTED).
        leaders: the leaders (schema LEADERS); None if the run chose the replicas without asking the cluster.
    """
    there = listed.select(*PARTITION_KEY)
    if leaders is None:
        return there
    left_alone = found.join(unled(found, leaders), on=["topic", "partition"], how="left_semi")
    return there.unionByName(left_alone.select(*PARTITION_KEY))


def _marked(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Add to `listed` the columns `leader` (broker id), `_leads` (bool) and `_replicas` (replicas per partition)."""
    replicas = F.count("*").over(Window.partitionBy("topic", "partition"))
    leads = F.coalesce(F.array_contains("log_dirs", F.col("log_dir")), F.lit(False))
    marked = listed.join(leaders, on=["topic", "partition"], how="left")
    return marked.withColumns({"_leads": leads, "_replicas": replicas})
