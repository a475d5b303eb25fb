"""Stage 1, list: folder names of log directories -> LISTED rows, beside the copies that came and went."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.before_spark import RecordsInput
from tiersnap.jobs.pipeline.grouping import by_key, of_batches
from tiersnap.remote_storage.cluster.records_task import FOUND
from tiersnap.snapshot.tables.remote_log_segments import (
    ATTEMPT_KEY,
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    STATE_COLUMNS,
    STATES,
    TOPIC_PARTITION,
)
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.list_partitions import FOLDER_ROWS, FOLDERS, NOTHING_TOLD, SourceFolder, ToldOfPartition

FOLDERS_PER_TASK = 200


def folders(
    spark: SparkSession,
    found: Sequence[tuple[str, str]],
    *,
    told: Mapping[str, ToldOfPartition] = MappingProxyType({}),
    records: RecordsInput | None = None,
    per_task: int = FOLDERS_PER_TASK,
) -> DataFrame:
    """(log directory, folder name) pairs as rows, spread over tasks, with what is told of a folder's partition.

    Spark answers a plan from the cache of an equal one, of whichever run and session of the application. Files change,
    and no plan says so; each call gives a plan that equals no other.

    Args:
        records: those that tasks read, each partition of `__remote_log_metadata` once.
    """
    rows = (SourceFolder(*each, told.get(each[1], NOTHING_TOLD)) for each in found)
    made = _of_its_own(spark, FOLDER_ROWS.batch(rows))
    if records is not None:
        read = by_key(
            _of_its_own(spark, records.wanted),
            ["number"],
            [],
            lambda _, batches: records.task(batches),
            schemas.of_arrow(FOUND),
        )
        # A partition whose number of metadata partitions was raised has records in two of them.
        read = read.groupBy("folder").agg(F.flatten(F.collect_list("records")).alias("read"))
        joined = made.join(read, on="folder", how="left")
        made = joined.withColumn("records", F.coalesce("read", "records")).select(*FOLDERS.names)
    return made.repartition(max(1, -(-len(found) // per_task)), "log_dir", "folder")


def _of_its_own(spark: SparkSession, rows: pa.RecordBatch) -> DataFrame:
    table = spark.createDataFrame(pa.Table.from_batches([rows]))
    return table.where(F.lit(uuid.uuid4().hex).isNotNull())


def list_partitions(
    folder_rows: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """FOLDERS -> LISTED, by tasks.ListPartitions or another of its kind, as the folders are now."""
    return folder_rows.mapInArrow(of_batches(task), schemas.LISTED)


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
    """Keep a partition's replica on a disk of its leader (rows of LEADERS); none if that is not there."""
    return _marked(listed, leaders).where("_leads or _replicas = 1").select(*listed.columns)


def unled(listed: DataFrame, leaders: DataFrame) -> DataFrame:
    """The partitions that `led_by_cluster` leaves out: topic, partition, replica_count and `leader` of `leaders`."""
    left_out = _marked(listed, leaders).where("_replicas > 1").groupBy("topic", "partition", "leader")
    counts = left_out.agg(F.count("*").alias("replica_count"), F.max("_leads").alias("is_led"))
    return counts.where("not is_led").select("topic", "partition", "replica_count", "leader")


def still_there(found: DataFrame, listed: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """Return the listed partitions (PARTITION_KEY), and those that were found and that nobody is known to lead.

    Of the latter nobody knows that they are led elsewhere.
    """
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


def order() -> Column:
    """Order the rows of an attempt: by run, in one run by state, and what it published behind what it read before."""
    state = F.array_position(F.array(*(F.lit(state) for state in STATES)), F.col("state"))
    return F.struct("run", state.alias("state"), F.coalesce("is_published", F.lit(False)).alias("is_published"))


def current(remote_log_segments: DataFrame) -> DataFrame:
    """The newest state of every attempt."""
    rows = remote_log_segments.where("segment_id is not null and state is not null")
    newest = rows.groupBy(*ATTEMPT_KEY).agg(F.max_by(F.struct("*"), order()).alias("row"))
    return newest.select("row.*")


def observed(listed: DataFrame, *, run: int) -> DataFrame:
    """LISTED -> rows of REMOTE_LOG_SEGMENTS, one a copy that was found; several of one, where replicas were listed."""
    rows = listed.where("topic_id is not null").selectExpr(*TOPIC_PARTITION, "inline(copies)")
    values: dict[str, object] = {name: name for name in STATE_COLUMNS}
    values |= {"object_bytes": 0, "rebuilt_indexes": "map()", "run": run}
    return rows.selectExpr(*schemas.columns_of(schemas.REMOTE_LOG_SEGMENTS, values))


def differences(listed: DataFrame, remote_log_segments: DataFrame, *, run: int) -> DataFrame:
    """Rows to append to `remote_log_segments` so that it says what was found.

    Copies below the first local segment are not looked at, so what the table says of them stays. A copy that an earlier
    run did not see is there again once it is seen. That a record names a copy is remembered; that none does is true of
    the run alone that read the records.
    """
    found = observed(listed, run=run).select(*ATTEMPT_KEY, F.struct("*").alias("found"))
    # A failure that entered no state has no order. All rows are read, as `changes.lost` reads them.
    is_state = F.expr("segment_id is not null and state is not null")
    place = F.when(is_state, order()).alias("_order")
    rows = remote_log_segments.where("topic_id is not null and partition is not null")
    known = rows.select(*ATTEMPT_KEY, F.struct("*").alias("known"), place)
    both = found.unionByName(known, allowMissingColumns=True).groupBy(*ATTEMPT_KEY)
    attempts = both.agg(F.expr("any_value(found, true)").alias("found"), F.max_by("known", "_order").alias("known"))
    looked_at = listed.where("topic_id is not null and error is null and size(segments) > 0")
    starts = looked_at.groupBy(*TOPIC_PARTITION).agg(F.expr("any_value(segments[0].base_offset)").alias("local_start"))
    published = "coalesce(found.is_published, if(known.is_published, true, null))"
    # A copy of ours counted while nobody knew that another attempt has its claim.
    has_come = f"""found is not null and (known is null or known.state = '{DELETE_FINISHED}'
        or (known.state = '{COPY_STARTED}' and found.state = '{COPY_FINISHED}')
        or (known.state = '{COPY_FINISHED}' and found.state = '{COPY_STARTED}' and found.is_ours)
        or (known.state = found.state and not known.is_published <=> {published}))"""
    is_gone = f"""found is null and known.state in ('{COPY_STARTED}', '{COPY_FINISHED}')
        and known.next_base_offset > local_start"""
    gone = F.col("known").withField("state", F.lit(DELETE_FINISHED)).withField("run", F.lit(run).cast("long"))
    told = F.col("found").withField("is_published", F.expr(published))
    row = F.when(F.expr(has_come), told).when(F.expr(is_gone), gone).alias("row")
    return (
        attempts.join(starts, on=list(TOPIC_PARTITION), how="left").select(row).where("row is not null").select("row.*")
    )


def tiered_rows(tiered: DataFrame, *, run: int) -> DataFrame:
    """Rows of upload.tier_task.TIERED -> rows of REMOTE_LOG_SEGMENTS."""
    return tiered.withColumn("run", F.lit(run).cast("long"))
