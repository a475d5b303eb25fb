"""Count what a run listed and has to do, all in one query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.counts import failures
from tiersnap.snapshot.errors import NotALogDirError, UsageError
from tiersnap.snapshot.units import count_of

_SUMS = ("segment_count", "decode_count", "retry_count", "decode_bytes", "left_out_count", "left_out_bytes")
_MORE_SUMS = ("finding_count", "copy_count", "unknown_encryption", "unread_count")


@dataclass(frozen=True)
class RunTotals:
    """Sums over the partitions of a run."""

    partitions: int = 0  # of all
    changed: int = 0  # partitions to replay
    distinct: int = 0  # names of partitions
    segment_count: int = 0  # from here on sums of the columns of changes.partition_changes
    decode_count: int = 0
    retry_count: int = 0
    decode_bytes: int = 0
    left_out_count: int = 0
    left_out_bytes: int = 0
    finding_count: int = 0
    copy_count: int = 0
    unknown_encryption: int = 0
    unread_count: int = 0
    changed_segments: int = 0  # of the partitions to replay
    errors: int = 0  # partitions for which remote storage could not be asked
    transient: int = 0  # errors by their kind; see counts.failures
    damaged: int = 0
    refused: int = 0
    misconfigured: int = 0
    left: int = 0  # partitions of which ended attempts left objects
    lost: int = 0  # partitions that lost offsets below their first local file
    doubted: str | None = None  # the first partition that begins in remote storage, if nothing of any of them is there
    newest: int = 0  # number of a run; see known.newest_runs
    recorded: int = 0
    settings: str | None = None  # of the newest run that is recorded
    differences: int = 0  # rows that are to be appended
    gone: int = 0  # rows that are to be appended
    forgetful: int = 0  # replicas, of all sources, that have forgotten producers
    unasked: int = 0  # replicas, of all sources, for which remote storage could not be asked

    @property
    def unrecorded(self) -> range:
        """Return the numbers of runs that were killed before they were recorded."""
        return range(self.recorded + 1, self.newest + 1)


def of_changes(changed: DataFrame) -> DataFrame:
    """Rows of changes.partition_changes -> one row of their totals."""
    return changed.agg(
        F.count("*").alias("partitions"),
        *(F.sum(name).alias(name) for name in (*_SUMS, *_MORE_SUMS)),
        F.count_if("is_changed").alias("changed"),
        F.sum(F.when(F.col("is_changed"), F.col("segment_count")).otherwise(0)).alias("changed_segments"),
        F.count_distinct("topic", "partition").alias("distinct"),
    )


def of_listing(listed: DataFrame) -> DataFrame:
    """LISTED -> one row of what is said of remote storage."""
    left, lacks = F.count_if(F.col("leftover_count") > 0).alias("left"), F.col("lacks_beginning")
    doubted = F.when(F.every(lacks), F.min(F.when(lacks, F.concat_ws("-", "topic", "partition")))).alias("doubted")
    lost = F.count_if(F.size("lost") > 0).alias("lost")
    return listed.agg(*failures(F.col("error").isNotNull()), left, lost, doubted)


def asked(frames: Iterable[DataFrame]) -> RunTotals:
    """The totals that these frames hold, one row each."""
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames).collect()
    return RunTotals(**{name: value for row in rows for name, value in row.asDict().items() if value is not None})


def refuse(totals: RunTotals, changed: DataFrame, sources: Sequence[str]) -> None:
    """Refuse partitions without a segment (NotALogDirError), and one that is listed twice (UsageError)."""
    if totals.partitions and not totals.segment_count and not totals.finding_count:
        raise NotALogDirError(
            f"{', '.join(sources)}: no segments in any of the partitions",
            hint="name one entry of log.dirs, not the folder above it",
        )
    if totals.distinct < totals.partitions:
        several = changed.groupBy("topic", "partition").count().where("count > 1")
        count, twice = several.count(), several.orderBy("topic", "partition").first()
        name = f"{twice.topic}-{twice.partition}" if twice is not None else ""
        raise UsageError(
            f"{name} is in more than one source: {count_of(count, 'partition is', 'partitions are')}",
            hint="two replicas of a partition would be tiered twice: give the leaders' log directories only, or "
            "--leader LOGDIR for each that leads, or --bootstrap-server HOST:PORT to ask the cluster",
        )
