"""The job of `tiersnap maintain tables`: it deletes superseded rows by MERGE, then compacts and vacuums the files."""

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.units import format_duration

_log = logging.getLogger(__name__)

_LEAST_HOURS = 168
_STATE_KEY = (*ATTEMPT_KEY, "state", "run")
_DELTA_CHECKS = "spark.databricks.delta.retentionDurationCheck.enabled"
# Spark's default lists a table's few folders in 10,000 tasks.
_FEW_LISTING_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "8"}


def superseded_segments(segments: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return SEGMENT_KEY and run of superseded decodes.

    A decode is superseded if the segment has a newer decode, or if a later replay did not find the segment.
    """
    keys = segments.select(*SEGMENT_KEY, "run").distinct()
    # A replay that failed has no SEGMENT facts. It does not prove that segments were deleted.
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
    """Return `key` and run of all rows that have a lower run than the newest row of the same key."""
    return superseded(rows.select(*key, "run").distinct(), key)


def superseded_facts(partitions: DataFrame) -> DataFrame:
    """Return FACT_KEY and run of superseded rows: all rows of each fact except the newest row.

    If `has_ended` is true in the newest row, the newest row is superseded too.
    """
    rows = partitions.select(*FACT_KEY, "run", "has_ended")
    ended = newest(rows, FACT_KEY).where("has_ended")
    return superseded(rows, FACT_KEY).unionByName(ended).select(*FACT_KEY, "run").distinct()


def superseded_states(remote_log_segments: DataFrame) -> DataFrame:
    """Return ATTEMPT_KEY, state and run of all states of a copy attempt except its newest state.

    One run may write a published and an unpublished row of the same state. Both have the same key, and both are kept.
    """
    return superseded(entered(remote_log_segments), ATTEMPT_KEY, progress()).select(*_STATE_KEY).distinct()


def maintain(warehouse: Warehouse, *, apply: bool, vacuum_after_hours: float = 168) -> Iterator[MaintainedTable]:
    """Yield one row per table, with the number of its superseded rows.

    If `apply` is true, delete these rows, compact the files, and vacuum the files of older versions.

    Args:
        warehouse: the tables.
        apply: whether to change the tables.
        vacuum_after_hours: age in hours from which files of older versions are deleted. Readers and writers may use
            younger files, so Delta accepts less than 168 hours only with the setting in _DELTA_CHECKS.

    Raises:
        UsageError: `vacuum_after_hours` is below 168 without that setting; nothing was changed.
    """
    is_checked = warehouse.spark.conf.get(_DELTA_CHECKS, "true") != "false"
    if vacuum_after_hours < _LEAST_HOURS and is_checked:
        raise UsageError(
            f"--vacuum-after {format_duration(round(vacuum_after_hours * 3600000))}: too short: other jobs may "
            "still read or write table versions that are up to 7d old",
            hint=f"only if no other job uses the warehouse: --spark-conf {_DELTA_CHECKS}=false",
        )
    if not warehouse.exists("partitions"):
        return
    partitions = warehouse.read("partitions")
    plans: list[tuple[str, Sequence[str], DataFrame]] = [
        ("segments", (*SEGMENT_KEY, "run"), superseded_segments(warehouse.read("segments"), partitions)),
        ("remote_log_segments", _STATE_KEY, superseded_states(warehouse.read("remote_log_segments"))),
        # The table readiness is a history. No row is superseded; only the files are compacted.
        ("readiness", (*SEGMENT_KEY, "run"), warehouse.read("readiness").where(F.lit(False))),
        ("remote_checks", (*CHECK_KEY, "run"), superseded_keys(warehouse.read("remote_checks"), CHECK_KEY)),
        # The table partitions is last: it determines the superseded rows of the other tables.
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
        _log.info("maintained %s: deleted %d superseded rows", warehouse.path(table), superseded)
    detail = delta.detail().select("numFiles", "sizeInBytes").first()
    if detail is None:
        return MaintainedTable(table, before, superseded, 0, 0)
    return MaintainedTable(table, before, superseded, detail.numFiles, detail.sizeInBytes)
