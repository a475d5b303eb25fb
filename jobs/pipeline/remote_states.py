"""The table `remote_log_segments`: the newest state of each copy attempt, and the rows that a run appends."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.newest import newest_row
from tiersnap.snapshot.tables.remote_log_segments import (
    ATTEMPT_KEY,
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    REFUSAL,
    STATE_COLUMNS,
    STATES,
    TOPIC_PARTITION,
)


def progress() -> Column:
    """Return the sort key of a copy attempt's states: the run, then the rank of the state in STATES."""
    return F.struct(
        "run", F.array_position(F.array(*(F.lit(state) for state in STATES)), F.col("state")).alias("state")
    )


def order() -> Column:
    """Return the sort key of an attempt's rows: `progress`; if that is equal, published rows come last."""
    return F.struct(progress().alias("progress"), F.coalesce("is_published", F.lit(False)).alias("is_published"))


def current(remote_log_segments: DataFrame) -> DataFrame:
    """Return the newest row of each copy attempt."""
    return newest_row(entered(remote_log_segments), ATTEMPT_KEY, order())


def entered(remote_log_segments: DataFrame) -> DataFrame:
    """Return the rows with a state. The other rows are failures before the attempt's first state."""
    return remote_log_segments.where("segment_id is not null and state is not null")


def refusals(remote_log_segments: DataFrame) -> DataFrame:
    """Return the rows of uploads that failed because the segment's snapshot lacks a transaction."""
    return remote_log_segments.where(F.col("error_type") == REFUSAL)


def observed(listed: DataFrame, *, run: int) -> DataFrame:
    """Return the remote segments of the listed partitions as rows of `remote_log_segments`, once per replica."""
    copies = listed.where("topic_id is not null").select(*TOPIC_PARTITION, F.explode("copies").alias("copy"))
    rows = copies.select(*TOPIC_PARTITION, "copy.*").select(*(name for name in STATE_COLUMNS if name != "run"))
    values = {"object_bytes": F.lit(0), "rebuilt_indexes": F.create_map(), "run": F.lit(run)}
    return schemas.in_columns(rows, schemas.REMOTE_LOG_SEGMENTS, values)


def differences(listed: DataFrame, remote_log_segments: DataFrame, *, run: int) -> DataFrame:
    """Return the rows to append to `remote_log_segments` so that it equals the listed remote segments.

    A run does not list remote segments below the first local segment, so their rows stay. A segment with the state
    DELETE_SEGMENT_FINISHED gets a new row if it is found again. If this run reads no records, a stored
    `is_published` of true stays true, and a stored false becomes null.
    """
    found = observed(listed, run=run).select(*ATTEMPT_KEY, F.struct("*").alias("found"))
    # Failures without a state get a null order. A filter would prevent Spark from sharing the read with `known.lost`.
    is_state = F.isnotnull("segment_id") & F.isnotnull("state")
    place = F.when(is_state, order()).alias("_order")
    rows = remote_log_segments.where("topic_id is not null and partition is not null")
    known = rows.select(*ATTEMPT_KEY, F.struct("*").alias("known"), place)
    both = found.unionByName(known, allowMissingColumns=True).groupBy(*ATTEMPT_KEY)
    attempts = both.agg(F.any_value("found", True).alias("found"), F.max_by("known", "_order").alias("known"))
    listed_at = listed.where("topic_id is not null and error is null and size(segments) > 0")
    start = F.any_value(F.col("segments")[0]["base_offset"]).alias("local_start")
    starts = listed_at.groupBy(*TOPIC_PARTITION).agg(start)
    row = F.when(_has_come(), _with_record()).when(_is_gone(), _deleted(run)).alias("row")
    joined = attempts.join(starts, on=list(TOPIC_PARTITION), how="left")
    return joined.select(row).where("row is not null").select("row.*")


def _is_published() -> Column:
    """Return the value of `is_published` for a found remote segment.

    If the found value is null, keep a stored true, and replace a stored false with null.
    """
    return F.coalesce(F.col("found.is_published"), F.when(F.col("known.is_published"), F.lit(True)))


def _has_come() -> Column:
    """Return a condition: the remote segment was found, and the table has no row for it, or an outdated row."""
    known, found = F.col("known.state"), F.col("found.state")
    has_finished = (known == COPY_STARTED) & (found == COPY_FINISHED)
    # Our segment was stored as finished before the run learned that another attempt has the claim.
    counts_no_more = (known == COPY_FINISHED) & (found == COPY_STARTED) & F.col("found.is_ours")
    has_new_record = (known == found) & ~F.col("known.is_published").eqNullSafe(_is_published())
    is_other = F.isnull("known") | (known == DELETE_FINISHED) | has_finished | counts_no_more | has_new_record
    return F.isnotnull("found") & is_other


def _with_record() -> Column:
    return F.col("found").withField("is_published", _is_published())


def _is_gone() -> Column:
    """Return a condition: the table has the remote segment, and this run did not find it.

    The condition is false for segments below the first local segment, because a run does not list them.
    """
    existed = F.col("known.state").isin(str(COPY_STARTED), str(COPY_FINISHED))
    return F.isnull("found") & existed & (F.col("known.next_base_offset") > F.col("local_start"))


def _deleted(run: int) -> Column:
    deleted = F.col("known").withField("state", F.lit(str(DELETE_FINISHED)))
    return deleted.withField("run", F.lit(run).cast("long"))


def tiered_rows(tiered: DataFrame, *, run: int) -> DataFrame:
    """Return the rows of `tiered` (schema TIERED of upload.tier_task) as rows of the table `remote_log_segments`."""
    return tiered.withColumn("run", F.lit(run).cast("long"))
