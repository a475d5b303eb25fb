"""The table `remote_log_segments` beside what was found: what copies came, and which are gone."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.snapshot.errors import RECORDED
from tiersnap.snapshot.tables.remote_log_segments import (
    ATTEMPT_KEY,
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    STATES,
    TOPIC_PARTITION,
)


def order() -> Column:
    """Which of two rows of an attempt is the newer: that of the later run, and in one run the further state."""
    return F.struct("run", F.array_position(F.array(*(F.lit(state) for state in STATES)), F.col("state")))


def current(remote_log_segments: DataFrame) -> DataFrame:
    """The newest state of every attempt."""
    rows = remote_log_segments.where("segment_id is not null and state is not null")
    newest = rows.groupBy(*ATTEMPT_KEY).agg(
        F.max_by(F.struct(*schemas.REMOTE_LOG_SEGMENTS.names), order()).alias("row")
    )
    return newest.select("row.*")


def observed(listed: DataFrame, *, run: int) -> DataFrame:
    """LISTED -> rows of REMOTE_LOG_SEGMENTS, one a copy that was found."""
    rows = listed.where("topic_id is not null").select(*TOPIC_PARTITION, F.explode("copies").alias("copy"))
    found = rows.select(*TOPIC_PARTITION, "copy.*").dropDuplicates(list(ATTEMPT_KEY))
    nothing = {name: F.lit(None) for name in ("error", *RECORDED)}
    return found.withColumns({"bytes": F.lit(0), "run": F.lit(run), **nothing}).select(
        *(F.col(field.name).cast(field.dataType).alias(field.name) for field in schemas.REMOTE_LOG_SEGMENTS)
    )


def differences(listed: DataFrame, remote_log_segments: DataFrame, *, run: int) -> DataFrame:
    """Rows to append to `remote_log_segments` so that it says what was found.

    Copies below the first local segment are not looked at, so what the table says of them stays. A copy that an earlier
    run did not see is there again once it is seen.
    """
    known = current(remote_log_segments)
    found = observed(listed, run=run)
    states = known.select(*ATTEMPT_KEY, F.col("state").alias("_known"))
    is_new = F.col("_known").isNull() | (F.col("_known") == DELETE_FINISHED)
    is_new |= (F.col("_known") == COPY_STARTED) & (F.col("state") == COPY_FINISHED)
    # It counted while nobody knew that another attempt has its claim.
    is_new |= (F.col("_known") == COPY_FINISHED) & (F.col("state") == COPY_STARTED) & F.col("is_ours")
    came = found.join(states, on=list(ATTEMPT_KEY), how="left").where(is_new)
    looked_at = listed.where("topic_id is not null and remote_error is null and size(segments) > 0").select(
        *TOPIC_PARTITION, F.col("segments")[0]["base_offset"].alias("_local_start")
    )
    gone = (
        known.where(F.col("state").isin(COPY_STARTED, COPY_FINISHED))
        .join(looked_at.dropDuplicates(list(TOPIC_PARTITION)), on=list(TOPIC_PARTITION))
        .where("end_offset >= _local_start")
        .join(found.select(*ATTEMPT_KEY), on=list(ATTEMPT_KEY), how="left_anti")
        .withColumns({"state": F.lit(DELETE_FINISHED), "run": F.lit(run).cast("long")})
    )
    names = schemas.REMOTE_LOG_SEGMENTS.names
    return came.select(*names).unionByName(gone.select(*names))


def tiered_rows(tiered: DataFrame, *, run: int) -> DataFrame:
    """Rows of upload.tier_rows.TIERED -> rows of REMOTE_LOG_SEGMENTS."""
    is_brokers = F.lit(None).cast("boolean")
    return tiered.withColumns(
        {"is_ours": F.lit(True), "run": F.lit(run).cast("long"), "is_brokers": is_brokers}
    ).select(*schemas.REMOTE_LOG_SEGMENTS.names)
