"""Rows that no reader of the tables asks for any more: deleted by MERGE, files compacted and vacuumed by Delta."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.checking import CHECK_KEY
from tiersnap.jobs.pipeline.known import is_of
from tiersnap.jobs.pipeline.maintained_table import MaintainedTable
from tiersnap.jobs.pipeline.newest import current_facts, newest, superseded
from tiersnap.jobs.pipeline.remote_states import entered, progress
from tiersnap.jobs.pipeline.session_settings import with_settings
from tiersnap.jobs.pipeline.warehouse import Warehouse, same_key
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.tables.facts import FACT_KEY, FactKind
from tiersnap.snapshot.tables.remote_log_segments import ATTEMPT_KEY
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.units import format_duration

_log = logging.getLogger(__name__)

_LEAST_HOURS = 168
_STATE_KEY = (*ATTEMPT_KEY, "state", "run")
_DELTA_CHECKS = "spark.databricks.delta.retentionDurationCheck.enabled"
# Delta lists a table's folder with as many tasks as Spark's setting says: 10,000, for a folder or two.
_FEW_LISTING_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "8"}


def superseded_segments(segments: DataFrame, partitions: DataFrame) -> DataFrame:
    """SEGMENT_KEY and run of decodes that are not the newest, or whose segment a later replay did not find."""
    keys = segments.select(*SEGMENT_KEY, "run").distinct()
    # A replay that came to no end states no segments, and says nothing of any.
    facts = current_facts(partitions)
    there = facts.where(is_of([FactKind.SEGMENT])).select(*SEGMENT_KEY)
    replayed = facts.where(is_of([FactKind.REPLAYED])).select(*PARTITION_KEY, F.col("run").alias("_replayed"))
    replayed = replayed.join(there, on=list(PARTITION_KEY), how="left_semi")
    gone = (
        keys.join(replayed, on=list(PARTITION_KEY))
        .where("run < _replayed")
        .join(there, on=list(SEGMENT_KEY), how="left_anti")
        .select(*SEGMENT_KEY, "run")
    )
    return superseded_keys(segments, SEGMENT_KEY).unionByName(gone).distinct()


def superseded_keys(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return `key` and run of the rows that are not of the newest run of their key."""
    return superseded(rows.select(*key, "run").distinct(), key)


def superseded_facts(partitions: DataFrame) -> DataFrame:
    """Return FACT_KEY and run of the rows of facts that have a newer row, or have ended."""
    rows = partitions.select(*FACT_KEY, "run", "has_ended")
    ended = newest(rows, FACT_KEY).where("has_ended")
    return superseded(rows, FACT_KEY).unionByName(ended).select(*FACT_KEY, "run").distinct()


def superseded_states(remote_log_segments: DataFrame) -> DataFrame:
    """ATTEMPT_KEY, state and run of states that an attempt has left.

    Two rows of one state and run have one key: the published one does not supersede the other.
    """
    return superseded(entered(remote_log_segments), ATTEMPT_KEY, progress()).select(*_STATE_KEY).distinct()


def maintain(warehouse: Warehouse, *, apply: bool, vacuum_after_hours: float = 168) -> Iterator[MaintainedTable]:
    """Look at each table, and with `apply` delete what is superseded, compact the files and vacuum old ones.

    Args:
        vacuum_after_hours: files of older versions go after that long; less than 168 needs a setting of Delta's own,
            because a reader or a writer may still be at them.

    Raises:
        UsageError: it is less without that setting; nothing was done.
    """
    is_checked = warehouse.spark.conf.get(_DELTA_CHECKS, "true") != "false"
    if vacuum_after_hours < _LEAST_HOURS and is_checked:
        raise UsageError(
            f"--vacuum-after {format_duration(round(vacuum_after_hours * 3_600_000))}: readers and writers of a table "
            "may be at its older versions for 7d",
            hint=f"if nobody else is: --spark-conf {_DELTA_CHECKS}=false",
        )
    if not warehouse.exists("partitions"):
        return
    partitions = warehouse.read("partitions")
    plans: list[tuple[str, Sequence[str], DataFrame]] = [
        ("segments", (*SEGMENT_KEY, "run"), superseded_segments(warehouse.read("segments"), partitions)),
        ("remote_log_segments", _STATE_KEY, superseded_states(warehouse.read("remote_log_segments"))),
        # A history, of which every row counts: its files are compacted.
        ("readiness", (*SEGMENT_KEY, "run"), warehouse.read("readiness").where(F.lit(False))),
        ("remote_checks", (*CHECK_KEY, "run"), superseded_keys(warehouse.read("remote_checks"), CHECK_KEY)),
        # Last: what is superseded elsewhere is told by it.
        ("partitions", (*FACT_KEY, "run"), superseded_facts(partitions)),
    ]
    for table, key, doomed in plans:
        if warehouse.exists(table):
            yield _one(warehouse, table, key, doomed, apply, vacuum_after_hours)


def _one(
    warehouse: Warehouse, table: str, key: Sequence[str], doomed: DataFrame, apply: bool, vacuum_after_hours: float
) -> MaintainedTable:
    rows = warehouse.read(table)
    before = rows.count()
    superseded = rows.alias("t").join(doomed.alias("d"), on=F.expr(same_key(key)), how="left_semi").count()
    delta = DeltaTable.forPath(warehouse.spark, warehouse.path(table))
    if apply:
        warehouse.may_commit()
        if superseded:
            warehouse.delete(table, key, doomed)
        delta.optimize().executeCompaction()
        with with_settings(warehouse.spark, _FEW_LISTING_TASKS):
            delta.vacuum(vacuum_after_hours)
        _log.info("maintained %s: %d superseded rows went", warehouse.path(table), superseded)
    detail = delta.detail().select("numFiles", "sizeInBytes").first()
    files, size = (0, 0) if detail is None else (detail.numFiles, detail.sizeInBytes)
    return MaintainedTable(table, before, superseded, files, size)
