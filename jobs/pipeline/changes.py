"""Stage 2, changed: what was listed beside what the tables know of it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.listing import listed_segments
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.snapshot.log.findings import NOT_READ
from tiersnap.snapshot.replay.remote_listing import Encryption
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

_KNOWN = (
    *("run", "topic_id", "next_base_offset", "size_bytes", "modified_ns", "crc_checked"),
    *("valid_bytes", "log_end_offset", "finding_kind", "finding_message"),
)


def known_decodes(segments: DataFrame) -> DataFrame:
    """`segments` -> one row a segment: the newest decode, its columns with `known_` in front, and its runs' starts."""
    rows = newest(segments.select(*SEGMENT_KEY, *_KNOWN, "run_start_offset"), SEGMENT_KEY)
    return rows.groupBy(*SEGMENT_KEY).agg(
        *(F.any_value(name).alias(f"known_{name}") for name in _KNOWN),
        F.collect_set("run_start_offset").alias("known_starts"),
    )


def carried(partitions: DataFrame) -> DataFrame:
    """`partitions` -> the CARRIED row of each partition that is not gone: its columns with `carried_` in front."""
    rows = still_there(partitions)
    names = ("fingerprint", "run", "state_offset", "state_chain", "high_watermark", "unread_count")
    return rows.select(*PARTITION_KEY, *(F.col(name).alias(f"carried_{name}") for name in names))


def still_there(partitions: DataFrame) -> DataFrame:
    """`partitions` -> the newest CARRIED row of each partition that was not found gone since."""
    last = partitions.where(F.col("kind").isin(str(FactKind.CARRIED), str(FactKind.GONE)))
    return newest(last, PARTITION_KEY).where(F.col("kind") == str(FactKind.CARRIED))


_LOST = ("SnapshotVanishedError", "SnapshotChangedError", "SegmentChangedError")


def lost_states(remote_log_segments: DataFrame) -> DataFrame:
    """topic_id, partition and `lost_run`: the last run that found a file gone or changed when it came to tier.

    What the tables say of it is not true any more, so the partition is carried from its beginning.
    """
    lost = remote_log_segments.where(F.col("error_type").isin(*_LOST))
    return lost.groupBy("topic_id", "partition").agg(F.max("run").alias("lost_run"))


def lost_decodes(remote_log_segments: DataFrame) -> DataFrame:
    """topic_id, partition, base_offset and `lost_decode_run`: likewise, of a segment that is not what was decoded.

    Its size and its time are as they were, or else its decode would not have been taken for it.
    """
    lost = remote_log_segments.where(F.col("error_type") == "SegmentChangedError")
    of_segment = lost.groupBy("topic_id", "partition", F.col("start_offset").alias("base_offset"))
    return of_segment.agg(F.max("run").alias("lost_decode_run"))


def partition_changes(
    listed: DataFrame,
    segments: DataFrame,
    partitions: DataFrame,
    remote_log_segments: DataFrame,
    *,
    options_digest: str,
    check_crc: bool,
) -> DataFrame:
    """One row a listed partition: what has to be done about it.

    Args:
        listed: LISTED rows.
        segments, partitions, remote_log_segments: the tables.
        options_digest: CarryOptions.digest of this run.
        check_crc: decode again what was decoded without.
    Returns:
        PARTITION_KEY, `start_offset` (of the state that a carry may start from, kept or vouched for by a claim in
        remote storage, or null), `is_changed`, `segment_count`, `decode_count`, `retry_count` (those of them that are
        tried again only because they could not be read), `decode_bytes`, `left_out_count` and `left_out_bytes` (of
        segments that no run has decoded and that need no decode: in remote storage, or before the scan window),
        `wanted` (array of the segments to decode: WANTED's columns from base_offset on, with topic_id),
        `finding_count`, `copy_count`, `unknown_encryption` (1 of a partition of which no manifest shows whether the
        plugin encrypts, else 0), and `unread_count` (of snapshot files that could not be read, where the
        partition is as it was carried; see spark.unread).
    """
    lost = lost_states(remote_log_segments)
    with_state = (
        listed.join(carried(partitions), on=list(PARTITION_KEY), how="left")
        .join(lost, on=["topic_id", "partition"], how="left")
        .withColumn("is_lost", F.coalesce(F.col("lost_run") >= F.col("carried_run"), F.lit(False)))
        .withColumn("carried_start", F.when(~F.col("is_lost"), _start_offset(options_digest)))
        .withColumn(
            "start_offset",
            F.coalesce("carried_start", F.when(F.col("start.crc32c").isNotNull(), F.col("start.offset"))),
        )
    )
    rows = (
        listed_segments(listed)
        .join(known_decodes(segments), on=list(SEGMENT_KEY), how="left")
        .join(lost_decodes(remote_log_segments), on=["topic_id", "partition", "base_offset"], how="left")
        .join(with_state.select(*PARTITION_KEY, "start_offset", "window_offset"), on=list(PARTITION_KEY), how="left")
    )
    # What is in remote storage is read only if there is no state beyond it to start from.
    is_needed = ~F.col("is_tiered") | (F.col("next_base_offset") > F.coalesce(F.col("start_offset"), F.lit(-1)))
    is_needed &= F.coalesce(F.col("base_offset") >= F.col("window_offset"), F.lit(True))
    was_read = _was_read()
    is_as_it_was = _is_as_it_was(check_crc)
    is_wanted = is_needed & ~(is_as_it_was & was_read)
    is_retry = is_needed & is_as_it_was & ~was_read
    is_left_out = ~is_needed & F.isnull("known_run")
    wanted = F.struct(
        *("topic_id", "base_offset", "next_base_offset", "size_bytes", "modified_ns", "cuts", "decode", "not_read"),
    )
    per_partition = (
        rows.withColumn("is_wanted", is_wanted)
        .withColumn("is_retry", is_retry)
        .withColumn("is_left_out", is_left_out)
        .withColumn("not_read", F.when(F.col("is_retry"), F.col("known_finding_message")))
        .groupBy(*PARTITION_KEY)
        .agg(
            F.count("*").alias("segment_count"),
            F.count_if("is_wanted").alias("decode_count"),
            F.count_if("is_retry").alias("retry_count"),
            # A host that collects has read the bytes already.
            F.sum(F.when(F.col("is_wanted") & F.isnull("decode"), F.col("size_bytes")).otherwise(0)).alias(
                "decode_bytes"
            ),
            F.count_if("is_left_out").alias("left_out_count"),
            F.sum(F.when(F.col("is_left_out"), F.col("size_bytes")).otherwise(0)).alias("left_out_bytes"),
            F.array_sort(F.collect_list(F.when(F.col("is_wanted"), wanted))).alias("wanted"),
            F.max("known_run").alias("newest_decode"),
        )
    )
    is_as_carried = (
        (F.col("carried_fingerprint") == F.concat_ws(":", "fingerprint", F.lit(options_digest)))
        & ~F.col("is_lost")
        & (F.coalesce(F.col("decode_count") - F.col("retry_count"), F.lit(0)) == 0)
        & (F.coalesce("newest_decode", F.lit(-1)) <= F.col("carried_run"))
    )
    return with_state.join(per_partition, on=list(PARTITION_KEY), how="left").select(
        *PARTITION_KEY,
        "start_offset",
        (~F.coalesce(is_as_carried, F.lit(False))).alias("is_changed"),
        F.coalesce("segment_count", F.lit(0)).alias("segment_count"),
        F.coalesce("decode_count", F.lit(0)).alias("decode_count"),
        F.coalesce("retry_count", F.lit(0)).alias("retry_count"),
        F.coalesce("decode_bytes", F.lit(0)).alias("decode_bytes"),
        F.coalesce("left_out_count", F.lit(0)).alias("left_out_count"),
        F.coalesce("left_out_bytes", F.lit(0)).alias("left_out_bytes"),
        "wanted",
        F.size("findings").alias("finding_count"),
        F.size("copies").alias("copy_count"),
        (F.coalesce("encryption", F.lit("")) == str(Encryption.UNKNOWN)).cast("long").alias("unknown_encryption"),
        F.coalesce(F.when(is_as_carried, F.col("carried_unread_count")), F.lit(0)).alias("unread_count"),
    )


def _start_offset(options_digest: str) -> Column:
    """Of the kept state, if all that it was made of is as it was, and so are the settings."""
    is_there = F.exists(
        "segments",
        lambda segment: (
            (segment["base_offset"] == F.col("carried_state_offset"))
            & (segment["chain"] == F.col("carried_state_chain"))
        ),
    )
    has_settings = F.substring_index("carried_fingerprint", ":", -1) == options_digest
    # Snapshots are stored up to the high watermark of the run that kept the state, and the state at that of this run
    # says which transactions hold the last stable offset. One that is not known is below.
    is_below = F.coalesce(
        (F.col("high_watermark") >= F.col("carried_state_offset"))
        & (F.col("carried_high_watermark") >= F.col("carried_state_offset")),
        F.lit(False),
    )
    return F.when(is_there & has_settings & is_below, F.col("carried_state_offset"))


def _is_as_it_was(check_crc: bool) -> Column:
    same = (
        (F.col("size_bytes") == F.col("known_size_bytes"))
        & (F.col("modified_ns") == F.col("known_modified_ns"))
        & F.col("topic_id").eqNullSafe(F.col("known_topic_id"))
        & _ends_as_it_did()
        & (~_has_new_cuts() | ~_was_read())
        & (F.coalesce("lost_decode_run", F.lit(-1)) < F.col("known_run"))
    )
    if check_crc:
        # What was taken on trust before is looked at now.
        same &= F.col("known_crc_checked")
    return F.coalesce(same, F.lit(False))


def _was_read() -> Column:
    return ~F.coalesce(F.col("known_finding_kind").isin([str(kind) for kind in NOT_READ]), F.lit(False))


def _ends_as_it_did() -> Column:
    """Whether the segment is followed by the one that followed it, or was sound when it was rolled.

    What is normal at the end of the active segment is damage in a closed one, so only a sound end needs no new look.
    """
    follows = F.col("next_base_offset").eqNullSafe(F.col("known_next_base_offset"))
    is_whole = (F.col("known_valid_bytes") == F.col("known_size_bytes")) & (F.col("known_size_bytes") > 0)
    fits = F.col("known_log_end_offset") <= F.col("next_base_offset")
    return follows | F.coalesce(F.isnull("known_next_base_offset") & is_whole & fits, F.lit(False))


def _has_new_cuts() -> Column:
    """Whether a state is wanted inside the segment where its runs were not cut."""
    is_closed = F.isnotnull("next_base_offset")
    return F.exists(
        "cuts",
        lambda cut: (is_closed | (cut <= F.col("known_log_end_offset"))) & ~F.array_contains("known_starts", cut),
    )
