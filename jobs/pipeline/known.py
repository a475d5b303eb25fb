"""The newest rows of partitions, segments and runs in the tables, without the columns of producer deltas."""

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY

_KNOWN = (
    *("run", "topic_id", "next_base_offset", "size_bytes", "modified_ns", "crc_checked"),
    *("valid_bytes", "last_offset", "finding_kind", "message"),
)
_REPLAYED = ("fingerprint", "state_offset", "state_chain", "high_watermark", "unread_count")
_LOST = (SnapshotVanishedError.__name__, SnapshotChangedError.__name__, SegmentChangedError.__name__)


def is_true(condition: Column) -> Column:
    """Return the condition with false in place of null."""
    return F.coalesce(condition, F.lit(False))


def is_of(kinds: Iterable[FactKind]) -> Column:
    """Return a condition: the row of the table `partitions` has one of these kinds."""
    return F.col("kind").isin([str(kind) for kind in kinds])


def _with_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Add the filter that no key column is null. The filter removes no row, because all rows have a key.

    A join adds the same filter. Delta Lake reads its transaction log once per set of filters, so equal filters save a
    read.
    """
    return rows.where(reduce(and_, (F.isnotnull(name) for name in key)))


def known_decodes(segments: DataFrame) -> DataFrame:
    """Return SEGMENT_KEY, the newest decode as `known`, and `known_starts`: start offsets of the decode's parts."""
    rows = newest(_with_key(segments, SEGMENT_KEY).select(*SEGMENT_KEY, *_KNOWN, "run_start_offset"), SEGMENT_KEY)
    known = F.any_value(F.struct(*_KNOWN)).alias("known")
    return rows.groupBy(*SEGMENT_KEY).agg(known, F.collect_set("run_start_offset").alias("known_starts"))


def last_replayed(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """Return PARTITION_KEY and `replayed`: the partition's newest row of the kind REPLAYED or GONE.

    Args:
        partitions: the table.
        names: columns of `replayed` besides `kind` and `run`.
    """
    rows = _with_key(partitions, PARTITION_KEY).where(is_of((FactKind.REPLAYED, FactKind.GONE)) & ~F.col("has_ended"))
    last = newest_row(rows.select(*PARTITION_KEY, "kind", "run", *names), PARTITION_KEY)
    return last.select(*PARTITION_KEY, F.struct("kind", "run", *names).alias("replayed"))


def present_partitions(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """Return the rows of `last_replayed`, without the partitions that no longer exist (GONE)."""
    return last_replayed(partitions, names).where(F.col("replayed.kind") == str(FactKind.REPLAYED))


def lost(remote_log_segments: DataFrame) -> DataFrame:
    """Return one row per partition about uploads that failed because a file was deleted or changed.

    Args:
        remote_log_segments: the table.
    Returns:
        - `topic_id`, `partition`.
        - `lost_run`: the last run with such a failure, or null. If it is not null, the tables are outdated, and the
          partition must be replayed from its log start offset.
        - `lost_decodes`: array of segments (`base_offset`, `run`). The upload in the run `run` found that the segment
          differs from its decode, although its size and time had not changed.
        - `last_run`: the last run that wrote a row about the partition.
    """
    rows, error = _with_key(remote_log_segments, ("topic_id", "partition")), F.col("error_type")
    decodes = F.when(error == SegmentChangedError.__name__, F.struct("base_offset", "run"))
    return rows.groupBy("topic_id", "partition").agg(
        F.max(F.when(error.isin(list(_LOST)), F.col("run"))).alias("lost_run"),
        F.collect_list(decodes).alias("lost_decodes"),
        F.max("run").alias("last_run"),
    )


def newest_runs(segments: DataFrame, partitions: DataFrame, remote: DataFrame, runs: DataFrame) -> DataFrame:
    """Return one row: `newest`, the largest run number in any table, and `recorded`, the largest one in `runs`.

    `recorded` is smaller than `newest` if later runs were killed. `settings` are the settings of the run `recorded`.
    All three columns are null before the first run. The queries equal those of the other functions in this module, so
    Spark reads the tables once.
    """
    numbers = (
        known_decodes(segments).select("known.run"),
        last_replayed(partitions).select("replayed.run"),
        lost(remote).select(F.col("last_run").alias("run")),
    )
    # Delta Lake would read its log twice for a maximum without a filter.
    of_runs = runs.where("run > 0").agg(F.max("run").alias("recorded"), F.max_by("settings", "run").alias("settings"))
    found = of_runs.select("*", F.col("recorded").alias("newest"))
    for rows in numbers:
        found = found.unionByName(rows.agg(F.max("run").alias("newest")), allowMissingColumns=True)
    return found.agg(*(F.max(name).alias(name) for name in ("newest", "recorded", "settings")))


def newest_facts(partitions: DataFrame, among: DataFrame, kinds: Iterable[FactKind]) -> DataFrame:
    """Return the current facts of these kinds about the partitions `among` (rows of PARTITION_KEY)."""
    rows = partitions.where(F.col("kind") != str(FactKind.STATE))
    return current_facts(rows.join(among, on=list(PARTITION_KEY), how="left_semi")).where(is_of(kinds))


def gone_partitions(
    partitions: DataFrame, listed: DataFrame, *, sources: Sequence[str], topics: re.Pattern[str] | None, run: int
) -> DataFrame:
    """Return rows to append to the table `partitions`: a GONE row for each partition that this run did not find again.

    Args:
        partitions: the table.
        listed: PARTITION_KEY of the partitions that the run found.
        sources: URIs of the run's sources; partitions of other log directories are skipped.
        topics: the run's topic filter; other topics are skipped. None for all topics.
        run: number of the run.
    """
    # Spark does not push this condition down to the read. So it can reuse the read of `partition_changes`.
    is_looked_for = F.when(F.col("replayed.kind") == str(FactKind.REPLAYED), F.col("log_dir").isin(list(sources)))
    missing = last_replayed(partitions).where(is_looked_for).select(*PARTITION_KEY)
    missing = missing.join(listed, on=list(PARTITION_KEY), how="left_anti")
    if topics is not None:
        missing = missing.mapInArrow(matching(topics), missing.schema)
    values = {"kind": F.lit(str(FactKind.GONE)), "part": F.lit(0), "run": F.lit(run), "has_ended": F.lit(False)}
    return schemas.in_columns(missing, schemas.PARTITIONS, values)


def ended_facts(partitions: DataFrame, gone: DataFrame, *, run: int) -> DataFrame:
    """Return rows to append to `partitions`: each current fact of the partitions in `gone`, with `has_ended` true."""
    rows = current_facts(partitions.drop(DELTAS).join(gone, on=list(PARTITION_KEY), how="left_semi"))
    return schemas.in_columns(rows, schemas.PARTITIONS, {"run": F.lit(run), "has_ended": F.lit(True)})
