"""Rows of `remote_log_segments`: the newest state of each remote segment, and the states that a run adds."""

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
    STATE_COLUMNS,
    STATES,
    TOPIC_PARTITION,
)


def order() -> Column:
    """Order the rows of an attempt: by run, and in one run by state."""
    return F.struct("run", F.array_position(F.array(*(F.lit(state) for state in STATES)), F.col("state")))


def current(remote_log_segments: DataFrame) -> DataFrame:
    """The newest state of every attempt."""
    return newest_row(entered(remote_log_segments), ATTEMPT_KEY, order())


def entered(remote_log_segments: DataFrame) -> DataFrame:
    """Return the rows of states, without failures that entered none."""
    return remote_log_segments.where("segment_id is not null and state is not null")


def observed(listed: DataFrame, *, run: int) -> DataFrame:
    """LISTED -> rows of REMOTE_LOG_SEGMENTS, one a copy that was found; several of one, where replicas were listed."""
    rows = listed.where("topic_id is not null").selectExpr(*TOPIC_PARTITION, "inline(copies)")
    values: dict[str, object] = {name: name for name in STATE_COLUMNS}
    values |= {"object_bytes": 0, "rebuilt_indexes": "map()", "run": run}
    return rows.selectExpr(*schemas.columns_of(schemas.REMOTE_LOG_SEGMENTS, values))


def differences(listed: DataFrame, remote_log_segments: DataFrame, *, run: int) -> DataFrame:
    """Rows to append to `remote_log_segments` so that it says what was found.

    Copies below the first local segment are not looked at, so what the table says of them stays. A copy that an earlier
    run did not see is there again once it is seen. That a record names a copy is remembered; that none does is true of
    the run alone that read the records.
    """
    found = observed(listed, run=run).select(*ATTEMPT_KEY, F.struct("*").alias("found"))
    # A failure that entered no state has no order. All rows are read, as `changes.lost` reads them.
    is_state = F.expr("segment_id is not null and state is not null")
    place = F.when(is_state, order()).alias("_order")
    rows = remote_log_segments.where("topic_id is not null and partition is not null")
    known = rows.select(*ATTEMPT_KEY, F.struct("*").alias("known"), place)
    both = found.unionByName(known, allowMissingColumns=True).groupBy(*ATTEMPT_KEY)
    attempts = both.agg(F.expr("any_value(found, true)").alias("found"), F.max_by("known", "_order").alias("known"))
    looked_at = listed.where("topic_id is not null and error is null and size(segments) > 0")
    starts = looked_at.groupBy(*TOPIC_PARTITION).agg(F.expr("any_value(segments[0].base_offset)").alias("local_start"))
    published = "coalesce(found.is_published, if(known.is_published, true, null))"
    # A copy of ours counted while nobody knew that another attempt has its claim.
    has_come = f"""found is not null and (known is null or known.state = '{DELETE_FINISHED}'
        or (known.state = '{COPY_STARTED}' and found.state = '{COPY_FINISHED}')
        or (known.state = '{COPY_FINISHED}' and found.state = '{COPY_STARTED}' and found.is_ours)
        or (known.state = found.state and not known.is_published <=> {published}))"""
    is_gone = f"""found is null and known.state in ('{COPY_STARTED}', '{COPY_FINISHED}')
        and known.next_base_offset > local_start"""
    gone = F.col("known").withField("state", F.lit(DELETE_FINISHED)).withField("run", F.lit(run).cast("long"))
    told = F.col("found").withField("is_published", F.expr(published))
    row = F.when(F.expr(has_come), told).when(F.expr(is_gone), gone).alias("row")
    return (
        attempts.join(starts, on=list(TOPIC_PARTITION), how="left").select(row).where("row is not null").select("row.*")
    )


def tiered_rows(tiered: DataFrame, *, run: int) -> DataFrame:
    """Rows of upload.tier_task.TIERED -> rows of REMOTE_LOG_SEGMENTS."""
    return tiered.withColumn("run", F.lit(run).cast("long"))
