"""Stage 1, list: folder names of log directories -> LISTED rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.snapshot.tasks.list_partitions import FOLDERS

FOLDERS_PER_TASK = 200


def folders(spark: SparkSession, found: Sequence[tuple[str, str]], *, per_task: int = FOLDERS_PER_TASK) -> DataFrame:
    """(log directory, folder name) pairs as rows, spread over tasks.

    Spark answers a plan from the cache of an equal one, of whichever run and session of the application. Files change,
    and no plan says so; each call gives a plan that equals no other.
    """
    table = pa.Table.from_arrays(
        [pa.array([each[column] for each in found], pa.string()) for column in (0, 1)], schema=FOLDERS
    )
    is_of_its_own = F.lit(uuid.uuid4().hex).isNotNull()
    return (
        spark.createDataFrame(table)
        .where(is_of_its_own)
        .repartition(max(1, -(-len(found) // per_task)), "log_dir", "folder")
    )


def list_partitions(
    folder_rows: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """FOLDERS -> LISTED, by tasks.ListPartitions or another of its kind, as the folders are now."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    return folder_rows.mapInArrow(run, schemas.LISTED)


def listed_segments(listed: DataFrame) -> DataFrame:
    """One row a listed segment: log_dir, topic, partition, topic_id and the fields of SEGMENT_FILES."""
    return listed.select("log_dir", "topic", "partition", "topic_id", F.explode("segments").alias("segment")).select(
        "log_dir", "topic", "partition", "topic_id", "segment.*"
    )


def led(listed: DataFrame, leaders: Sequence[str]) -> DataFrame:
    """Keep a partition's replicas in the log directories `leaders`; all if none is there."""
    is_leader = F.col("log_dir").isin(list(leaders))
    is_known = F.max(is_leader).over(Window.partitionBy("topic", "partition"))
    return listed.withColumn("_is_led", is_leader | ~is_known).where("_is_led").drop("_is_led")


def led_by_cluster(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Keep a partition's replica on a disk of its leader; none if that is not there.

    Args:
        leaders: topic, partition, and `log_dirs` of the broker that leads it.
    """
    return _marked(listed, leaders).where("_leads or _replicas = 1").select(*listed.columns)


def unled(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """The partitions that `led_by_cluster` leaves out: topic, partition, replica_count and `leader` of `leaders`."""
    left_out = _marked(listed, leaders).where("_replicas > 1").groupBy("topic", "partition", "leader")
    counts = left_out.agg(F.count("*").alias("replica_count"), F.max("_leads").alias("is_led"))
    return counts.where("not is_led").select("topic", "partition", "replica_count", "leader")


def _marked(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Rows of LISTED with `leader`, `_leads` and, of their partition, `_replicas`."""
    replicas = F.count("*").over(Window.partitionBy("topic", "partition"))
    leads = F.coalesce(F.array_contains("log_dirs", F.col("log_dir")), F.lit(False))
    marked = listed.join(leaders, on=["topic", "partition"], how="left")
    return marked.withColumns({"_leads": leads, "_replicas": replicas})
