"""The newest rows that the tables have of partitions, segments and runs, asked without payload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import matching
from tiersnap.jobs.pipeline.newest import current_facts, newest, newest_row
from tiersnap.remote_storage.errors import SegmentChangedError, SnapshotChangedError, SnapshotVanishedError
from tiersnap.snapshot.tables.facts import DELTAS, FactKind
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, SEGMENT_KEY

_KNOWN = (
    *("run", "topic_id", "next_base_offset", "size_bytes", "modified_ns", "crc_checked"),
    *("valid_bytes", "last_offset", "finding_kind", "message"),
)
_REPLAYED = ("fingerprint", "state_offset", "state_chain", "high_watermark", "unread_count")
_LOST = (SnapshotVanishedError.__name__, SnapshotChangedError.__name__, SegmentChangedError.__name__)


def is_true(condition: Column) -> Column:
    """Return the condition, false where it is null."""
    return F.coalesce(condition, F.lit(False))


def is_of(kinds: Iterable[FactKind]) -> Column:
    """Return whether a row of `partitions` is of one of the kinds."""
    return F.col("kind").isin([str(kind) for kind in kinds])


def _with_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """All rows of a table: no part of a key is null.

    Spark infers that for a join, and Delta Lake asks its log once for each set of filters of a query.
    """
    return rows.where(reduce(and_, (F.isnotnull(name) for name in key)))


def known_decodes(segments: DataFrame) -> DataFrame:
    """Return a row for each segment: its newest decode as `known`, and the first offsets of its parts."""
    rows = newest(_with_key(segments, SEGMENT_KEY).select(*SEGMENT_KEY, *_KNOWN, "run_start_offset"), SEGMENT_KEY)
    known = F.any_value(F.struct(*_KNOWN)).alias("known")
    return rows.groupBy(*SEGMENT_KEY).agg(known, F.collect_set("run_start_offset").alias("known_starts"))


def last_replayed(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """`partitions` -> PARTITION_KEY and `replayed`: `kind` (REPLAYED or GONE), `run`, fields of the newest replay."""
    rows = _with_key(partitions, PARTITION_KEY).where(is_of((FactKind.REPLAYED, FactKind.GONE)) & ~F.col("has_ended"))
    last = newest_row(rows.select(*PARTITION_KEY, "kind", "run", *names), PARTITION_KEY)
    return last.select(*PARTITION_KEY, F.struct("kind", "run", *names).alias("replayed"))


def still_there(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """The rows of `last_replayed` of partitions that were not found gone since."""
    return last_replayed(partitions, names).where(F.col("replayed.kind") == str(FactKind.REPLAYED))


def lost(remote_log_segments: DataFrame) -> DataFrame:
    """`remote_log_segments` -> topic_id, partition, and what runs found gone or changed when they came to tier.

    `lost_run` is the last run that did: what the tables say is not true any more, so the partition is replayed from its
    beginning. `lost_decodes` are the runs (`base_offset`, `run`) that found a segment to be another than its decode,
    though its size and its time are as they were. `last_run` is the last run of all.
    """
    rows, error = _with_key(remote_log_segments, ("topic_id", "partition")), F.col("error_type")
    decodes = F.when(error == SegmentChangedError.__name__, F.struct("base_offset", "run"))
    return rows.groupBy("topic_id", "partition").agg(
        F.max(F.when(error.isin(list(_LOST)), F.col("run"))).alias("lost_run"),
        F.collect_list(decodes).alias("lost_decodes"),
        F.max("run").alias("last_run"),
    )


def newest_runs(segments: DataFrame, partitions: DataFrame, remote: DataFrame, runs: DataFrame) -> DataFrame:
    """The tables -> one row: `newest`, the greatest number of a run in any of them, and `recorded`, that in `runs`.

    `recorded` is less if the last runs were killed half way; `settings` are those of that row. All are null before the
    first run. It reads the same rows as the other functions here, so that Spark reads no table again.
    """
    numbers = (
        known_decodes(segments).select("known.run"),
        last_replayed(partitions).select("replayed.run"),
        lost(remote).select(F.col("last_run").alias("run")),
        # Delta Lake would ask its log twice for a maximum of all rows.
        runs.where("run > 0").select("run", "settings"),
    )
    maxima = [
        rows.agg(
            F.max("run").alias("newest"),
            F.lit(rows is numbers[-1]).alias("is_runs"),
            (F.max_by("settings", "run") if rows is numbers[-1] else F.lit(None).cast("string")).alias("settings"),
        )
        for rows in numbers
    ]
    recorded = F.max(F.when(F.col("is_runs"), F.col("newest"))).alias("recorded")
    found = reduce(DataFrame.unionByName, maxima)
    return found.agg(F.max("newest").alias("newest"), recorded, F.max("settings").alias("settings"))


def newest_facts(partitions: DataFrame, among: DataFrame, kinds: Iterable[FactKind]) -> DataFrame:
    """Return the facts of these kinds that hold in the partitions `among` (PARTITION_KEY)."""
    rows = partitions.where(F.col("kind") != str(FactKind.STATE))
    return current_facts(rows.join(among, on=list(PARTITION_KEY), how="left_semi")).where(is_of(kinds))


def gone_partitions(
    partitions: DataFrame, listed: DataFrame, *, sources: Sequence[str], topics: re.Pattern[str] | None, run: int
) -> DataFrame:
    """Return rows to append to the table `partitions`: GONE, for each that this run looked for in vain.

    `listed` is PARTITION_KEY of what was found; `sources` and `topics` say where and what the run looked for.
    """
    # One condition, which is not pushed down: the table is read as the changes read it.
    is_looked_for = F.when(F.col("replayed.kind") == str(FactKind.REPLAYED), F.col("log_dir").isin(list(sources)))
    missing = last_replayed(partitions).where(is_looked_for).select(*PARTITION_KEY)
    missing = missing.join(listed, on=list(PARTITION_KEY), how="left_anti")
    if topics is not None:
        missing = missing.mapInArrow(matching(topics), missing.schema)
    values = {"kind": F.lit(str(FactKind.GONE)), "part": F.lit(0), "run": F.lit(run), "has_ended": F.lit(False)}
    return schemas.in_columns(missing, schemas.PARTITIONS, values)


def ended_facts(partitions: DataFrame, gone: DataFrame, *, run: int) -> DataFrame:
    """Return rows to append to the table `partitions`: the ends of all facts of partitions that are `gone`."""
    rows = current_facts(partitions.drop(DELTAS).join(gone, on=list(PARTITION_KEY), how="left_semi"))
    return schemas.in_columns(rows, schemas.PARTITIONS, {"run": F.lit(run), "has_ended": F.lit(True)})
