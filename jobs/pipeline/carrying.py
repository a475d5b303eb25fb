"""Stage 4, carry: the partitions that changed, each with its decodes and the state that an earlier carry left."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.carry_partition import CarryPartition
from tiersnap.snapshot.tasks.partition_input import INPUT_ORDER, Source

_KEPT = (FactKind.CARRIED, FactKind.STATE, FactKind.BOUNDARY)


def partition_input(
    listed: DataFrame, changes: DataFrame, segments: DataFrame, partitions: DataFrame, *, is_bounded: bool = False
) -> DataFrame:
    """INPUT rows of the partitions that changed, without `copy`, which none of them has.

    Args:
        listed: LISTED rows.
        changes: rows of changes.partition_changes.
        segments, partitions: the tables, with the decodes of this run in them.
        is_bounded: some partitions were listed with a scan window.
    """
    changed = changes.where("is_changed").select(*PARTITION_KEY, "start_offset")
    ours = listed.join(changed.drop("start_offset"), on=list(PARTITION_KEY), how="left_semi")
    facts = newest(partitions, PARTITION_KEY).where(F.col("kind").isin([str(kind) for kind in _KEPT]))
    facts = facts.join(changed.where("start_offset is not null"), on=list(PARTITION_KEY), how="left_semi")
    bases = ours.select(*PARTITION_KEY, F.explode("segments.base_offset").alias("base_offset"))
    decodes = (
        newest(segments, SEGMENT_KEY)
        # Not those that retention has deleted since: the table remembers them until `maintain`.
        .join(bases, on=list(SEGMENT_KEY), how="left_semi")
        .join(changed, on=list(PARTITION_KEY))
    )
    # Below the start only how each segment ended is asked for, not its deltas.
    is_below = F.coalesce(F.col("base_offset") < F.col("start_offset"), F.lit(False))
    decodes = decodes.where(~is_below | (F.col("part") == 0)).withColumn(
        "deltas", F.when(is_below, F.lit(None)).otherwise(F.col("deltas"))
    )
    listings = input_columns(Source.LISTED, F.lit(0), F.lit(0), listed=schemas.LISTED.names)
    known = input_columns(Source.FACTS, F.col("offset"), F.col("part"), fact=schemas.PARTITIONS.names)
    decoded = input_columns(Source.DECODES, F.col("base_offset"), F.col("part"), decode=schemas.SEGMENTS.names)
    # A window is looked through before it is carried, and no task can read its rows twice.
    from_window = changed.where("start_offset is null").drop("start_offset")
    windows = ours.where("window_offset is not null").select(*PARTITION_KEY, "window_offset")
    shown = (
        decodes.join(windows.join(from_window, on=list(PARTITION_KEY)), on=list(PARTITION_KEY))
        .where("base_offset >= window_offset")
        .select(*input_columns(Source.WINDOW, F.col("base_offset"), F.col("part"), decode=schemas.SEGMENTS.names))
    )
    rows = ours.select(*listings).unionByName(facts.select(*known)).unionByName(decodes.select(*decoded))
    return (rows.unionByName(shown) if is_bounded else rows).drop("copy")


def input_columns(source: Source, offset: Column, part: Column, **filled: list[str]) -> list[Column]:
    """Columns of INPUT: one of `listed`, `fact`, `copy` and `decode` is filled, from the columns that are named."""
    columns = [
        *(F.col(name) for name in PARTITION_KEY),
        F.lit(int(source)).alias("source"),
        offset.cast("long").alias("offset"),
        part.cast("int").alias("part"),
    ]
    for name in ("listed", "fact", "copy", "decode"):
        kind = schemas.INPUT[name].dataType
        value = F.struct(*filled[name]) if name in filled else F.lit(None)
        columns.append(value.cast(kind).alias(name))
    return columns


def carry(rows: DataFrame, task: CarryPartition) -> DataFrame:
    """INPUT -> PARTITIONS, one partition at a time; the snapshots are put from the tasks."""
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, lambda _, batches: task(batches), schemas.PARTITIONS)
