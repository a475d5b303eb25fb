"""The totals of a run's listed partitions, such as the segments to decode, computed in one query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.counts import failures
from tiersnap.snapshot.errors import NotALogDirError, UsageError
from tiersnap.snapshot.units import count_of

_SUMS = ("segment_count", "decode_count", "retry_count", "decode_bytes", "left_out_count", "left_out_bytes")
_MORE_SUMS = ("finding_count", "copy_count", "unknown_encryption", "unread_count")


@dataclass(frozen=True)
class RunTotals:
    """Sums over the listed partitions of a run."""

    partitions: int = 0  # listed, one row per replica
    changed: int = 0  # partitions to replay
    distinct: int = 0  # different partition names
    segment_count: int = 0  # this and the next nine fields are sums of columns of changes.partition_changes
    decode_count: int = 0
    retry_count: int = 0
    decode_bytes: int = 0
    left_out_count: int = 0
    left_out_bytes: int = 0
    finding_count: int = 0
    copy_count: int = 0
    unknown_encryption: int = 0
    unread_count: int = 0
    changed_segments: int = 0  # segments of the partitions to replay
    errors: int = 0  # partitions whose remote segments could not be listed
    transient: int = 0  # this and the next three fields count these errors by kind; see counts.failures
    damaged: int = 0
    refused: int = 0
    misconfigured: int = 0
    left: int = 0  # partitions with leftovers in remote storage
    lost: int = 0  # partitions that lost offsets in remote storage below their first local segment
    # The first listed partition, if the remote location lacks the start of every listed partition.
    doubted: str | None = None
    newest: int = 0  # largest run number in the tables; see known.newest_runs
    recorded: int = 0  # largest run number in the table runs
    settings: str | None = None  # settings of that run
    differences: int = 0  # rows to append to remote_log_segments
    gone: int = 0  # rows to append to partitions about deleted partitions
    replicas_without_producers: int = 0  # replicas in all sources that lost active producers
    unasked: int = 0  # replicas in all sources whose remote segments could not be listed

    @property
    def unrecorded(self) -> range:
        """Return the numbers of the runs that were killed before they wrote their row of the table `runs`."""
        return range(self.recorded + 1, self.newest + 1)


def of_changes(changed: DataFrame) -> DataFrame:
    """Return one row with the sums over rows of `changes.partition_changes`."""
    return changed.agg(
        F.count("*").alias("partitions"),
        *(F.sum(name).alias(name) for name in (*_SUMS, *_MORE_SUMS)),
        F.count_if("is_changed").alias("changed"),
        F.sum(F.when(F.col("is_changed"), F.col("segment_count")).otherwise(0)).alias("changed_segments"),
        F.count_distinct("topic", "partition").alias("distinct"),
    )


def of_listing(listed: DataFrame) -> DataFrame:
    """Return one row of counts about the remote storage of the listed partitions."""
    left, lacks = F.count_if(F.col("leftover_count") > 0).alias("left"), F.col("lacks_beginning")
    doubted = F.when(F.every(lacks), F.min(F.when(lacks, F.concat_ws("-", "topic", "partition")))).alias("doubted")
    lost = F.count_if(F.size("lost") > 0).alias("lost")
    return listed.agg(*failures(F.col("error").isNotNull()), left, lost, doubted)


def asked(frames: Iterable[DataFrame]) -> RunTotals:
    """Return the totals. Each DataFrame has one row with some fields of RunTotals; one query reads all DataFrames."""
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames).collect()
    values: dict[str, Any] = {}
    for row in rows:
        values |= {name: value for name, value in row.asDict().items() if value is not None}
    return RunTotals(**values)


def refuse(totals: RunTotals, changed: DataFrame, sources: Sequence[str]) -> None:
    """Check the listed partitions.

    Raises:
        NotALogDirError: no partition has a segment or a finding.
        UsageError: a partition is in several sources.
    """
    if totals.partitions and not totals.segment_count and not totals.finding_count:
        raise NotALogDirError(
            f"{', '.join(sources)}: no partition has a segment",
            hint="give one directory in log.dirs as the source, not the folder above it",
        )
    if totals.distinct < totals.partitions:
        several = changed.groupBy("topic", "partition").count().where("count > 1")
        count, twice = several.count(), several.orderBy("topic", "partition").first()
        name = f"{twice.topic}-{twice.partition}" if twice is not None else ""
        raise UsageError(
            f"{count_of(count, 'partition is', 'partitions are')} in more than one source, such as {name}",
            hint="choose one replica of each partition with --bootstrap-server HOST:PORT, or with --leader LOGDIR",
        )
