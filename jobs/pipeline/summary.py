"""Stage 6, report: READINESS rows counted by Spark; the driver gets groups, and runs of the partitions with details."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.readiness.verdict import SEVERITY
from tiersnap.snapshot.report.aggregate import PARTITION_CODES, RECENT_MS, SEGMENT_COLUMNS, Aggregated, Codes
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.summary import summarise_aggregated
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

# Their segments come to the driver.
DETAILS = 200


def verdict_counts(readiness: DataFrame) -> DataFrame:
    """READINESS -> verdict, segments, bytes."""
    return readiness.groupBy("verdict").agg(F.count("*").alias("segments"), F.sum("size_bytes").alias("bytes"))


def verdict_groups(readiness: DataFrame, now: int) -> DataFrame:
    """READINESS -> one row a partition and verdict: Aggregated.verdicts with names in place of codes; `now` is ms."""
    dated = F.when(F.col("max_timestamp") >= 0, F.col("max_timestamp"))
    is_recent = (F.col("max_timestamp") > now - RECENT_MS) & (F.col("max_timestamp") <= now)
    return readiness.groupBy(*PARTITION_KEY, "verdict").agg(
        F.count("*").alias("segments"),
        F.sum("size_bytes").alias("bytes"),
        F.min("base_offset").alias("first_offset"),
        F.min(dated).alias("oldest"),
        F.sum(F.when(is_recent, F.col("size_bytes")).otherwise(0)).alias("recent_bytes"),
        F.sum("finding_count").alias("findings"),
        *(F.max(name).alias(name) for name in ("log_start_offset", "last_stable_offset", "high_watermark")),
        *(F.min_by(name, "base_offset").alias(name) for name in ("reason", "next_step", "topic_id")),
    )


def verdict_runs(readiness: DataFrame) -> DataFrame:
    """READINESS -> one row a run of neighbouring segments with one verdict and one kind of snapshot, `held`."""
    by_offset = Window.partitionBy(*PARTITION_KEY).orderBy("base_offset")
    held = readiness.withColumn("held", F.concat_ws(" ", "snapshot", "snapshot_provenance"))
    begins = (F.col("verdict") != F.lag("verdict").over(by_offset)) | (F.col("held") != F.lag("held").over(by_offset))
    numbered = held.withColumn("_run", F.sum(F.coalesce(begins.cast("int"), F.lit(0))).over(by_offset))
    return numbered.groupBy(*PARTITION_KEY, "verdict", "held", "_run").agg(
        F.min("base_offset").alias("base_offset"),
        # Null for the active segment, which is the last of its run.
        F.max_by("next_base_offset", "base_offset").alias("next_base_offset"),
        F.sum("size_bytes").alias("size_bytes"),
        F.count("*").alias("segments"),
    )


def to_report(readiness: DataFrame, run: RunInfo, *, details: int = DETAILS) -> Report:
    """The report of READINESS rows, which should be persisted: they are asked three times."""
    topics, log_dirs, held = Codes(), Codes(), Codes()
    verdicts = _coded(verdict_groups(readiness, run.now).toArrow(), topics, log_dirs)
    kinds = readiness.where("next_base_offset is not null").groupBy("snapshot", "snapshot_provenance", "compared")
    snapshots = kinds.agg(F.count("*").alias("segments")).toArrow()
    found = Aggregated(verdicts, snapshots, pa.table({}), topics.values, log_dirs.values, held.values)

    def segments_of(chosen: list[tuple[int, int, int]]) -> pa.Table:
        names = pa.table(
            {
                "topic": pa.array([topics.values[topic] for topic, _, _ in chosen], pa.string()),
                "log_dir": pa.array([log_dirs.values[log_dir] for _, log_dir, _ in chosen], pa.string()),
                "partition": pa.array([partition for *_, partition in chosen], pa.int32()),
                "wanted": pa.array(range(len(chosen)), pa.int32()),
            }
        )
        wanted = F.broadcast(readiness.sparkSession.createDataFrame(names))
        runs = verdict_runs(readiness.join(wanted.drop("wanted"), on=list(PARTITION_KEY), how="left_semi"))
        rows = _coded(runs.join(wanted, on=list(PARTITION_KEY)).toArrow(), topics, log_dirs)
        rows = rows.set_column(rows.schema.get_field_index("held"), "held", held.encode(rows["held"]))
        ordered = rows.sort_by([("wanted", "ascending"), ("base_offset", "ascending")])
        return ordered.select([*SEGMENT_COLUMNS, "wanted"])

    return summarise_aggregated(found, segments_of, run, details=details)


def _coded(table: pa.Table, topics: Codes, log_dirs: Codes) -> pa.Table:
    """Names as codes and verdicts as ranks, as `aggregate` has them."""
    names = pa.array([str(verdict) for verdict in SEVERITY], pa.string())
    ranks = pc.index_in(table["verdict"].cast(pa.string()), names).cast(pa.int8())
    columns = {name: table[name] for name in table.column_names}
    columns |= {"topic": topics.encode(table["topic"]), "log_dir": log_dirs.encode(table["log_dir"]), "verdict": ranks}
    return pa.table(columns).select([*PARTITION_CODES, *(name for name in columns if name not in PARTITION_CODES)])
