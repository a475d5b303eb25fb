"""What a run listed and has to do, in numbers; refused if folders hold no segment, or two the same partition."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tiersnap.snapshot.errors import NotALogDirError, UsageError
from tiersnap.snapshot.units import count_of

_SUMS = ("segment_count", "decode_count", "retry_count", "decode_bytes", "left_out_count", "left_out_bytes")
_MORE_SUMS = ("finding_count", "copy_count", "unknown_encryption", "unread_count")


def totals_of(changed: DataFrame, sources: Sequence[str]) -> Row:
    """Rows of changes.partition_changes -> their sums, `partitions` and `changed` (both counts of partitions).

    Raises:
        NotALogDirError: there are partitions, and none has a segment.
        UsageError: a partition is listed more than once.
    """
    totals: Row = changed.agg(
        F.count("*").alias("partitions"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (*_SUMS, *_MORE_SUMS)),
        F.count_if("is_changed").alias("changed"),
        F.count_distinct("topic", "partition").alias("distinct"),
    ).collect()[0]
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
    return totals
