"""Stage 1, list: folder names of log directories -> LISTED rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.spark import schemas
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.list_partitions import FOLDERS

FOLDERS_PER_TASK = 200


def folders(spark: SparkSession, found: Sequence[tuple[str, str]], *, per_task: int = FOLDERS_PER_TASK) -> DataFrame:
    """(log directory, folder name) pairs as rows, spread over tasks."""
    table = pa.Table.from_arrays(
        [pa.array([each[column] for each in found], pa.string()) for column in (0, 1)], schema=FOLDERS
    )
    return spark.createDataFrame(table).repartition(max(1, -(-len(found) // per_task)), "log_dir", "folder")


def list_partitions(
    folder_rows: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """FOLDERS -> LISTED, by tasks.ListPartitions or another of its kind."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    return folder_rows.mapInArrow(run, schemas.LISTED)


def listed_segments(listed: DataFrame) -> DataFrame:
    """One row a listed segment: log_dir, topic, partition, topic_id and the fields of SEGMENT_FILES."""
    return listed.select("log_dir", "topic", "partition", "topic_id", F.explode("segments").alias("segment")).select(
        "log_dir", "topic", "partition", "topic_id", "segment.*"
    )


def led(listed: DataFrame, leaders: Sequence[str]) -> DataFrame:
    """Of several replicas of a partition those in the log directories `leaders`; all, where none of them is there."""
    return _of_leaders(listed, F.col("log_dir").isin(list(leaders)))


def led_by_cluster(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """Of several replicas of a partition the one on the disk of the broker that leads it; all, where that is not there.

    Args:
        leaders: log_dir, topic, partition of the replicas that lead.
    """
    leading = leaders.select(*PARTITION_KEY, F.lit(True).alias("_leads"))
    marked = listed.join(leading, on=list(PARTITION_KEY), how="left")
    return _of_leaders(marked, F.coalesce("_leads", F.lit(False))).drop("_leads")


def _of_leaders(listed: DataFrame, is_leader: Column) -> DataFrame:
    is_known = F.max(is_leader).over(Window.partitionBy("topic", "partition"))
    return listed.withColumn("_is_led", is_leader | ~is_known).where("_is_led").drop("_is_led")
