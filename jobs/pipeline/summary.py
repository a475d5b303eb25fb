"""Stage 8, report: Spark counts the verdicts; the driver collects the counts, and the segments of a few partitions.

The replicas without producers are stored in the table `runs`: in the column `settings` of the newest run's row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.totals import RunTotals
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.report.aggregate import (
    OF_FIRST,
    PARTIAL,
    PARTITION_CODES,
    RECENT_MS,
    SEGMENT_COLUMNS,
    SNAPSHOT_KEY,
    Codes,
    labels_of,
    of_partials,
    of_partitions,
    ranks_of,
)
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.report.from_tables import BEFORE_THE_FIRST, LastSettings, worst_replicas_without_producers
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.summary import summarise_aggregated
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, schema_of

# Number of partitions whose segments the driver collects for the report.
DETAILS = 200
_AGGREGATES = {"count": F.count, "sum": F.sum, "min": F.min, "max": F.max}


def verdict_groups(readiness: DataFrame, now: int, *more: str, sums: Sequence[Column] = ()) -> DataFrame:
    """Return one row per partition, verdict, kind of snapshot and `more`, with the sums that `of_partials` needs.

    Args:
        readiness: the verdicts (schema READINESS).
        now: ms since the epoch.
        more: further columns to group by.
        sums: further aggregates.
    """
    is_recent = (F.col("largest_timestamp") > now - RECENT_MS) & (F.col("largest_timestamp") <= now)
    columns = {
        "dated": F.when(F.col("largest_timestamp") >= 0, F.col("largest_timestamp")),
        "recent": F.when(is_recent, F.col("size_bytes")).otherwise(0),
        "is_closed": F.col("next_base_offset").isNotNull(),
    }
    rows = readiness.withColumns(columns)
    return rows.groupBy(*PARTITION_KEY, "verdict", *SNAPSHOT_KEY, "is_closed", *more).agg(
        *(_AGGREGATES[how](column).alias(name) for column, how, name in PARTIAL),
        # Null if the group ends with the active segment.
        F.max_by("next_base_offset", "base_offset").alias("end_offset"),
        *(F.min_by(name, "base_offset").alias(name) for name in OF_FIRST),
        *sums,
    )


def verdict_runs(readiness: DataFrame, now: int, *, sums: Sequence[Column] = ()) -> DataFrame:
    """Return rows like `verdict_groups`, but one per sequence of neighbouring segments that have the same group.

    The column `run_number` numbers the sequences of a partition.
    """
    same = F.struct("verdict", *SNAPSHOT_KEY, F.isnull("next_base_offset"))
    by_offset = Window.partitionBy(*PARTITION_KEY).orderBy("base_offset")
    begins = readiness.withColumn("_begins", (~same.eqNullSafe(F.lag(same).over(by_offset))).cast("int"))
    numbered = begins.withColumn("run_number", F.sum("_begins").over(by_offset))
    return verdict_groups(numbered, now, "run_number", sums=sums)


def to_report(
    groups: pa.Table, readiness_of: Callable[[DataFrame], DataFrame], run: RunInfo, spark: SparkSession
) -> Report:
    """Return the report.

    Args:
        groups: rows of `verdict_groups` or of `verdict_runs`.
        readiness_of: returns the verdicts (schema READINESS) of the given partitions (PARTITION_KEY). It is called if
            `groups` are rows of `verdict_groups`, because they do not show which segments are neighbours.
        run: facts about the run.
        spark: session.
    """
    topics, log_dirs, held = Codes(), Codes(), Codes()
    coded = _coded(groups, topics, log_dirs)
    found = of_partials(coded, topics, log_dirs, held)

    def segments_of(chosen: list[tuple[int, int, int]]) -> pa.Table:
        if "run_number" in groups.schema.names:
            return of_partitions(_segments(coded, held), chosen)
        rows = [
            {"log_dir": log_dirs.values[log_dir], "topic": topics.values[topic], "partition": partition}
            for topic, log_dir, partition in chosen
        ]
        schema = schema_of(("log_dir", pa.string()), ("topic", pa.string()), ("partition", pa.int32()))
        names = pa.Table.from_pylist(rows, schema)
        runs = verdict_runs(readiness_of(F.broadcast(spark.createDataFrame(names))), run.now).toArrow()
        return of_partitions(_segments(_coded(runs, topics, log_dirs), held), chosen)

    return summarise_aggregated(found, segments_of, run, details=DETAILS)


def _segments(runs: pa.Table, held: Codes) -> pa.Table:
    """Return rows of `verdict_runs` with their columns renamed to SEGMENT_COLUMNS."""
    of_segments = {"base_offset": "first_offset", "next_base_offset": "end_offset", "size_bytes": "bytes"}
    columns = {name: runs[of_segments.get(name, name)] for name in SEGMENT_COLUMNS if name != "held"}
    return pa.table({**columns, "held": held.encode(labels_of(runs))}).select(SEGMENT_COLUMNS)


def _coded(table: pa.Table, topics: Codes, log_dirs: Codes) -> pa.Table:
    """Return the table for `aggregate`, with codes in place of names, and ranks in place of verdicts."""
    codes = {"topic": topics.encode(table["topic"]), "log_dir": log_dirs.encode(table["log_dir"])}
    columns = {name: table[name] for name in table.column_names} | codes | {"verdict": ranks_of(table["verdict"])}
    return pa.table(columns).select([*PARTITION_CODES, *(name for name in columns if name not in PARTITION_CODES)])


@dataclass(frozen=True)
class KnownReplicasWithoutProducers:
    """The replicas without producers that the table `runs` has before a run, and those that it must have afterwards."""

    before: tuple[ReplicaWithoutProducers, ...]
    after: tuple[ReplicaWithoutProducers, ...]

    @classmethod
    def of(
        cls,
        found: Iterable[ReplicaWithoutProducers],
        totals: RunTotals,
        settings: RunSettings,
        collected: Collection[str],
    ) -> KnownReplicasWithoutProducers:
        """Return the replicas that a run found. Keep replicas of earlier runs if this run did not check them.

        Args:
            found: replicas without producers that this run found.
            totals: sums of the run.
            settings: settings of the run.
            collected: URIs of collected folders; no run checks their replicas.
        """

        def is_checked(each: ReplicaWithoutProducers) -> bool:
            is_here = each.log_dir in settings.sources and each.log_dir not in collected
            return is_here and not totals.unasked and matches_topic(each.topic, settings.topics)

        last = BEFORE_THE_FIRST
        if totals.settings is not None:
            last = LastSettings.decode(totals.settings, settings.warehouse)
        before = last.replicas_without_producers
        return cls(before, worst_replicas_without_producers([each for each in before if not is_checked(each)], found))

    @property
    def has_changed(self) -> bool:
        """Return whether these replicas changed, so that the run needs a row in the table `runs`."""
        return self.before != self.after

    def rows(self) -> list[dict[str, object]]:
        """Return the field `after` as plain data, for the column `settings` of the table `runs`."""
        return list(map(asdict, self.after))


def segments_by(groups: pa.Table, name: str) -> dict[str, int]:
    """Return the number of segments in `groups` by the values of the column `name`."""
    sums = groups.group_by(name).aggregate([("segments", "sum")])
    return {row[name]: row["segments_sum"] for row in sums.to_pylist()}
