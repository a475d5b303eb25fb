"""What the tables know of partitions, segments and runs: their newest rows, asked without payload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import matching
from tiersnap.jobs.pipeline.newest import newest
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

_KNOWN = (
    *("run", "topic_id", "next_base_offset", "size_bytes", "modified_ns", "crc_checked"),
    *("valid_bytes", "last_offset", "finding_kind", "message"),
)
_REPLAYED = ("fingerprint", "state_offset", "state_chain", "high_watermark", "unread_count")
_LOST = ("SnapshotVanishedError", "SnapshotChangedError", "SegmentChangedError")


def texts(values: Iterable[str]) -> str:
    """Words as SQL has them between brackets."""
    return ", ".join(f"'{value}'" for value in values)


def _with_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """All rows of a table: no part of a key is null.

    Spark infers that for a join, and Delta Lake asks its log once for each set of filters of a query.
    """
    return rows.where(" and ".join(f"{name} is not null" for name in key))


def known_decodes(segments: DataFrame) -> DataFrame:
    """`segments` -> one row a segment: `known`, the newest decode, and its runs' starts in `known_starts`."""
    rows = newest(_with_key(segments, SEGMENT_KEY).select(*SEGMENT_KEY, *_KNOWN, "run_start_offset"), SEGMENT_KEY)
    known = F.expr(f"any_value(struct({', '.join(_KNOWN)}))").alias("known")
    return rows.groupBy(*SEGMENT_KEY).agg(known, F.collect_set("run_start_offset").alias("known_starts"))


def last_replayed(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """`partitions` -> PARTITION_KEY and `replayed`: `kind` (REPLAYED or GONE), `run`, fields of the newest replay."""
    rows = _with_key(partitions, PARTITION_KEY).where(f"kind in ({texts((FactKind.REPLAYED, FactKind.GONE))})")
    fields = ", ".join(("kind", "run", *names))
    return rows.groupBy(*PARTITION_KEY).agg(F.expr(f"max_by(struct({fields}), run)").alias("replayed"))


def still_there(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """The rows of `last_replayed` of partitions that were not found gone since."""
    return last_replayed(partitions, names).where(f"replayed.kind = '{FactKind.REPLAYED}'")


def lost(remote_log_segments: DataFrame) -> DataFrame:
    """`remote_log_segments` -> topic_id, partition, and what runs found gone or changed when they came to tier.

    `lost_run` is the last run that did: what the tables say is not true any more, so the partition is replayed from its
    beginning. `lost_decodes` are the runs (`base_offset`, `run`) that found a segment to be another than its decode,
    though its size and its time are as they were. `last_run` is the last run of all.
    """
    lost_run = f"max(if(error_type in ({texts(_LOST)}), run, null))"
    decodes = "collect_list(if(error_type = 'SegmentChangedError', struct(base_offset, run), null))"
    rows = _with_key(remote_log_segments, ("topic_id", "partition"))
    return rows.groupBy("topic_id", "partition").agg(
        F.expr(lost_run).alias("lost_run"), F.expr(decodes).alias("lost_decodes"), F.max("run").alias("last_run")
    )


def newest_runs(segments: DataFrame, partitions: DataFrame, remote: DataFrame, runs: DataFrame) -> DataFrame:
    """The tables -> one row: `newest`, the greatest number of a run in any of them, and `recorded`, that in `runs`.

    `recorded` is less if the last runs were killed half way; `settings` are those of that row. All are null before the
    first run. What the rows of this module are made of is asked, so that no table is read once more.
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
    recorded = F.expr("max(if(is_runs, newest, null))").alias("recorded")
    found = reduce(DataFrame.unionByName, maxima)
    return found.agg(F.max("newest").alias("newest"), recorded, F.max("settings").alias("settings"))


def newest_facts(partitions: DataFrame, among: DataFrame, kinds: Iterable[FactKind]) -> DataFrame:
    """Return rows of these kinds from the newest replay of the partitions `among` (PARTITION_KEY) that are not gone."""
    # Every replay leaves a REPLAYED row, and GONE is alone in its run.
    rows = partitions.where(f"kind <> '{FactKind.STATE}'")
    rows = newest(rows.join(among, on=list(PARTITION_KEY), how="left_semi"), PARTITION_KEY)
    return rows.where(F.col("kind").isin([str(kind) for kind in kinds]))


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
    key = {name: name for name in PARTITION_KEY}
    values = key | {"kind": f"'{FactKind.GONE}'", "part": "0", "run": str(run)}
    return missing.selectExpr(*schemas.columns_of(schemas.PARTITIONS, values))
