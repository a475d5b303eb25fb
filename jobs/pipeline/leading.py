"""Choose one replica per partition: the replica that --leader names, or the replica of the cluster's leader."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


def led(listed: DataFrame, leaders: Sequence[str]) -> DataFrame:
    """Return the replicas in the log directories `leaders`. A partition without such a replica keeps all replicas."""
    is_leader = F.col("log_dir").isin(list(leaders))
    is_known = F.max(is_leader).over(Window.partitionBy("topic", "partition"))
    return listed.withColumn("_is_led", is_leader | ~is_known).where("_is_led").drop("_is_led")


def led_by_cluster(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Return the leader's replica of each partition with several replicas, and all other partitions.

    A partition with several replicas is left out if none of them is in a log directory of its leader.

    Args:
        listed: LISTED rows.
        leaders: LEADERS rows.
    """
    return _marked(listed, leaders).where("_leads or _replicas = 1").select(*listed.columns)


def unled(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Return the partitions that `led_by_cluster` leaves out: `topic`, `partition`, `replica_count`, `leader`."""
    left_out = _marked(listed, leaders).where("_replicas > 1").groupBy("topic", "partition", "leader")
    counts = left_out.agg(F.count("*").alias("replica_count"), F.max("_leads").alias("is_led"))
    return counts.where("not is_led").select("topic", "partition", "replica_count", "leader")


def still_led(found: DataFrame, listed: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """Return PARTITION_KEY of the listed partitions, and of the found ones whose leading replica is unknown.

    Args:
        found: LISTED rows before the choice of replicas.
        listed: LISTED rows after it.
        leaders: LEADERS rows; None if the cluster did not choose.
    """
    there = listed.select(*PARTITION_KEY)
    if leaders is None:
        return there
    left_alone = found.join(unled(found, leaders), on=["topic", "partition"], how="left_semi")
    return there.unionByName(left_alone.select(*PARTITION_KEY))


def _marked(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Add `leader` (broker id), `_leads` (bool) and `_replicas` (number of the partition's rows) to LISTED rows."""
    replicas = F.count("*").over(Window.partitionBy("topic", "partition"))
    leads = F.coalesce(F.array_contains("log_dirs", F.col("log_dir")), F.lit(False))
    marked = listed.join(leaders, on=["topic", "partition"], how="left")
    return marked.withColumns({"_leads": leads, "_replicas": replicas})
