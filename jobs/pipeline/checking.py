"""The job of `tiersnap verify --remote --warehouse`: it verifies new remote segments, and repeats checks when due."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.before_spark import Session, started
from tiersnap.jobs.pipeline.grouping import by_key, of_batches
from tiersnap.jobs.pipeline.newest import current_facts, newest_row
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.session_settings import shuffle_tasks
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.remote_storage.verify.check_plan import CheckPlan
from tiersnap.remote_storage.verify.check_task import TO_CHECK, CheckTask, ComparedSnapshot
from tiersnap.snapshot.gate.remote_check import CHECKS, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.gate.trusted import TRUSTED
from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked, remote_checked
from tiersnap.snapshot.report.run_info import new_run_id
from tiersnap.snapshot.rows import Int32, Rows
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

TABLE = "remote_checks"
CHECK_KEY = ("topic_id", "partition", "segment_id")
_PARTITION = ("topic", "topic_id", "partition")
_SHOWN = 1_000
Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class CheckedPartition:
    """A partition, and the sums over the checks of its remote segments."""

    topic: str
    topic_id: str | None
    partition: Int32
    checked: RemoteChecked


_ROWS = Rows(CheckedPartition)
SUMMED = _ROWS.schema


def sum_up(group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one row with the sums over the checks of one partition (schema SUMMED).

    Args:
        group: the partition's rows of the table `remote_checks`.
    """
    found = remote_checked(CHECKS.read(group))
    yield _ROWS.batch(CheckedPartition(*key, each) for key, each in found.items())


def of_summed(rows: Iterable[Mapping[str, object]]) -> dict[Key, RemoteChecked]:
    """Return the sums by partition; `rows` have the columns of SUMMED."""
    found = _ROWS.read_dicts(list(rows))
    return {(each.topic, each.topic_id, each.partition): each.checked for each in found}


@dataclass
class CheckOutcome:
    """The outcome of one call of `check_remote`."""

    verdicts: Counter[RemoteVerdict] = field(default_factory=Counter)  # number of checks by verdict
    bytes: int = 0  # sum of the checks' bytes
    segments: int = 0  # number of checked segments that exist
    rows: list[RemoteCheck] = field(default_factory=list)  # the first checks whose verdict is not `is_sound`


def check_remote(
    spark: SparkSession | Session,
    warehouse: str,
    plan: CheckPlan,
    task: CheckTask,
    *,
    recheck: int | None,
    stores: StoreSettings | None = None,
) -> CheckOutcome:
    """Verify the partitions of a plan, and append the checks to the table `remote_checks`.

    Args:
        spark: the session, or a function that starts one.
        warehouse: URI.
        plan: the partitions to verify.
        task: verifies a partition's remote segments.
        recheck: ms, longest time until a sound segment is verified again; None if it is never verified again.
        stores: settings of the warehouse's object store.

    Raises:
        TransientError: another run writes to the warehouse.
    """
    run_id = new_run_id()
    with spoken("verify"), only_run(warehouse, run_id, stores) as check:
        tables = Warehouse(started(spark), warehouse, check)
        done = tables.read(TABLE)
        run = (done.agg(F.max("run").alias("run")).collect()[0].run or 0) + 1
        known = holding(done, now=task.asked.now, recheck=recheck)
        rows = checked(to_check(tables.spark, plan, known, compared_snapshots(tables.read("partitions"))), task)
        tables.append(TABLE, rows.withColumn("run", F.lit(run).cast("long")), run_id=run_id)
        return _outcome(tables.read(TABLE).where(F.col("run") == run))


def holding(checks: DataFrame, *, now: int, recheck: int | None) -> DataFrame:
    """Return the newest RemoteCheck row of each segment whose next check is not due.

    A check is due after 50 to 100 % of `recheck`, depending on the segment id. So no run has to repeat all checks.

    Args:
        checks: rows of the table `remote_checks`.
        now: ms since the epoch.
        recheck: ms; None if no check is ever due again.
    """
    order = F.struct("run", "checked_at")
    rows = newest_row(checks.where("segment_id != ''"), CHECK_KEY, order).select(*CHECKS.names)
    if recheck is None:
        return rows
    share = F.lit(1) + F.pmod(F.crc32("segment_id"), F.lit(1000)) / F.lit(1000)
    return rows.where(F.col("checked_at") > F.lit(now) - F.lit(recheck / 2) * share)


def compared_snapshots(partitions: DataFrame) -> DataFrame:
    """Return `topic`, `topic_id`, `partition`, and `compared`: an array of ComparedSnapshot.

    The array contains the snapshots that a replay computed, and the snapshot files that a replay found to be trusted.

    Args:
        partitions: rows of the table `partitions`.
    """
    facts = current_facts(partitions)
    ids = facts.where(F.col("kind") == str(FactKind.REPLAYED)).select(*PARTITION_KEY, "topic_id")
    of_file = F.when(F.col("compared").isin(sorted(TRUSTED)), F.col("file_crc32c"))
    boundaries = facts.where(F.col("kind") == str(FactKind.BOUNDARY)).select(
        *PARTITION_KEY, F.col("snapshot_offset").alias("offset"), F.coalesce("object_crc32c", of_file).alias("crc")
    )
    rows = boundaries.where("crc is not null").join(ids.where("topic_id is not null"), on=list(PARTITION_KEY))
    return rows.groupBy(*_PARTITION).agg(F.collect_list(F.struct(*ComparedSnapshot._fields)).alias("compared"))


def verified(warehouse: Warehouse) -> dict[Key, RemoteChecked]:
    """Return the sums of all checks by partition. The driver collects one row per partition."""
    if not warehouse.exists(TABLE):
        return {}
    rows = by_key(warehouse.read(TABLE).select(*CHECKS.names), _PARTITION, ("checked_at",), sum_up, of_arrow(SUMMED))
    return of_summed(row.asDict() for row in rows.collect())


def to_check(spark: SparkSession, plan: CheckPlan, known: DataFrame, compared: DataFrame) -> DataFrame:
    """Return the partitions of a plan (schema TO_CHECK), spread over at most spark.sql.shuffle.partitions tasks.

    A task verifies several partitions, because the start of a task costs more CPU (130 ms) than most partitions.

    Args:
        spark: session.
        plan: the partitions.
        known: rows of `holding`: checks that need no repetition.
        compared: rows of `compared_snapshots`.
    """
    columns = zip(*((of.topic, of.topic_id, of.partition) for of in plan.partitions), strict=True)
    types = (TO_CHECK.field(name).type for name in _PARTITION)
    table = pa.table([pa.array(each, kind) for each, kind in zip(columns, types, strict=True)], names=list(_PARTITION))
    # The random literal keeps Spark from using the cached rows of an equal plan: remote storage changes.
    partitions = spark.createDataFrame(table).where(F.lit(uuid.uuid4().hex).isNotNull())
    told = known.groupBy(*_PARTITION).agg(F.collect_list(F.struct(*CHECKS.names)).alias("known"))
    rows = reduce(lambda left, right: left.join(right, on=list(_PARTITION), how="left"), [told, compared], partitions)
    tasks = min(len(plan.partitions), shuffle_tasks(spark))
    return rows.select(*TO_CHECK.names).repartition(tasks, "topic_id", "partition")


def checked(rows: DataFrame, task: Task) -> DataFrame:
    """Return the checks (rows of RemoteCheck) of the partitions in `rows`; `task` is a verify.check_task.CheckTask."""
    return rows.mapInArrow(of_batches(task), of_arrow(CHECKS.schema))


def _outcome(rows: DataFrame) -> CheckOutcome:
    outcome = CheckOutcome()
    is_there = (F.col("segment_id") != "") & (F.col("verdict") != RemoteVerdict.GONE.value)
    of_segment = F.count_if(is_there).alias("segments")
    sums = (F.count("*").alias("rows"), F.sum("bytes").alias("bytes"), of_segment)
    for row in rows.groupBy("verdict").agg(*sums).collect():
        outcome.verdicts[RemoteVerdict(row.verdict)] = row["rows"]
        outcome.bytes += row["bytes"]
        outcome.segments += row["segments"]
    unsound = [each.value for each in RemoteVerdict if not each.is_sound]
    found = rows.where(F.col("verdict").isin(unsound)).orderBy(*_PARTITION, "base_offset").limit(_SHOWN)
    outcome.rows = CHECKS.read_dicts([row.asDict() for row in found.select(*CHECKS.names).collect()])
    return outcome
