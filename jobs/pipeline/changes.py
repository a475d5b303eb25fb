"""Stage 2, changed: compares each listed partition with its rows in the tables.

An earlier run may have failed to read a snapshot file. The module `unread` marks the partition as changed if the file
can be read now, or if reading fails with another error.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.decoding import bytes_to_read
from tiersnap.jobs.pipeline.known import is_true, known_decodes, lost, present_partitions
from tiersnap.jobs.pipeline.unread import ANSWERED
from tiersnap.snapshot.log.findings import NOT_READ
from tiersnap.snapshot.replay.remote_listing import Encryption
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY

_WANTED = ("base_offset", "next_base_offset", "size_bytes", "modified_ns", "cuts", "decode")
# For each partition to replay, a run caches these columns of `partition_changes`.
CHANGED = pa.schema([*ANSWERED, ("start_offset", pa.int64()), ("segment_count", pa.int64())])


def partition_changes(
    listed: DataFrame,
    segments: DataFrame,
    partitions: DataFrame,
    remote_log_segments: DataFrame,
    *,
    options_digest: str,
    check_crc: bool,
) -> DataFrame:
    """Return one row per listed partition, with the segments to decode and whether the partition needs a replay.

    Args:
        listed: the listed partitions (schema LISTED).
        segments, partitions, remote_log_segments: the tables.
        options_digest: ReplayOptions.digest of this run.
        check_crc: decode segments again if an earlier run decoded them without a CRC check.
    Returns:
        - PARTITION_KEY.
        - `start_offset`: offset of the state that a replay may start from; null if none exists. An earlier run stored
          the state, or a claim in remote storage names it.
        - `is_changed` (bool): the partition needs a replay.
        - `segment_count`: number of listed segments.
        - `decode_count`: number of segments to decode. `decode_bytes`: number of bytes to read from their files.
          `wanted`: array of these segments, with the columns of WANTED except PARTITION_KEY.
        - `retry_count`: how many of these segments have not changed, but could not be read by an earlier run.
        - `left_out_count`, `left_out_bytes`: number and bytes of segments that no run decoded and that no replay needs.
          Such segments are in remote storage or before the scan window.
        - `finding_count`, `copy_count`: length of `findings` and of `copies` in `listed`.
        - `unknown_encryption`: 1 if no manifest in remote storage shows whether the brokers' plugin encrypts this
          partition, else 0.
        - `unread_count`: number of snapshot files that the last replay could not read, 0 if `is_changed`; see `unread`.
    """
    rows = _segments(listed, partitions, remote_log_segments, options_digest)
    rows = rows.join(known_decodes(segments), on=list(SEGMENT_KEY), how="left")
    was_not_read = F.col("known.finding_kind").isin([str(kind) for kind in NOT_READ])
    state, end = F.col("partition_state"), F.col("next_base_offset")
    # Skip a remote segment if a replay may start from a state at or after its end.
    ends_beyond = F.coalesce(end > F.coalesce(state["start_offset"], F.lit(-1)), F.lit(True))
    is_in_window = F.coalesce(F.col("base_offset") >= state["window_offset"], F.lit(True))
    of_segment = rows.select(
        *(*PARTITION_KEY, "topic_id", "partition_state", *_WANTED),
        F.col("known.run").alias("known_run"),
        F.col("known.message").alias("known_message"),
        bytes_to_read().alias("bytes_to_read"),
        (~is_true(was_not_read)).alias("was_read"),
        _is_as_it_was(was_not_read, check_crc=check_crc).alias("is_as_it_was"),
        (F.isnotnull("base_offset") & (~F.col("is_tiered") | ends_beyond) & is_in_window).alias("is_needed"),
    )
    return _of_partitions(of_segment, options_digest)


def _segments(listed: DataFrame, partitions: DataFrame, remote_log_segments: DataFrame, digest: str) -> DataFrame:
    """Return one row per listed segment: the columns SEGMENT_FILES, and columns about its partition.

    `partition_state` is a struct with facts about the partition. `lost_decodes` is a column of `known.lost`. A
    partition without segments has one row in which the columns of the segment are null.
    """
    known = listed.join(present_partitions(partitions), on=list(PARTITION_KEY), how="left")
    known = known.join(lost(remote_log_segments), on=["topic_id", "partition"], how="left")
    is_lost = is_true(F.col("lost_run") >= F.col("replayed.run"))
    of_it = known.select(
        *(*PARTITION_KEY, "topic_id", "segments", "lost_decodes", "replayed", "fingerprint", "high_watermark"),
        *("snapshot_offset", "window_offset", "encryption"),
        F.size("findings").alias("finding_count"),
        F.size("copies").alias("copy_count"),
        is_lost.alias("is_lost"),
    )
    kept = F.when(_may_start(digest), F.col("replayed.state_offset"))
    is_unknown = is_true(F.col("encryption") == str(Encryption.UNKNOWN))
    state = F.struct(
        F.coalesce(kept, F.col("snapshot_offset")).alias("start_offset"),
        *("window_offset", "is_lost", "replayed", "fingerprint", "finding_count", "copy_count"),
        is_unknown.cast("long").alias("unknown_encryption"),
    )
    columns = (*PARTITION_KEY, "topic_id", "lost_decodes")
    # Select the state before the explode: in one select Spark would compute the state again for each segment.
    with_state = of_it.select(*columns, "segments", state.alias("partition_state"))
    exploded = with_state.select(*columns, "partition_state", F.explode_outer("segments").alias("segment"))
    return exploded.select(*columns, "partition_state", "segment.*")


def _may_start(digest: str) -> Column:
    """Return a condition: a replay may start from the state that the last replay stored."""
    replayed, high_watermark = F.col("replayed"), F.col("high_watermark")
    is_same_log = F.exists(
        "segments",
        lambda segment: (
            (segment["base_offset"] == replayed["state_offset"]) & (segment["chain"] == replayed["state_chain"])
        ),
    )
    has_same_options = F.substring_index(replayed["fingerprint"], ":", -1) == digest
    # The last replay stored snapshots up to its own high watermark only. This run needs the state at its own high
    # watermark, to find the transactions that limit the last stable offset. Both high watermarks must be known.
    is_below = (high_watermark >= replayed["state_offset"]) & (replayed["high_watermark"] >= replayed["state_offset"])
    return ~F.col("is_lost") & is_same_log & has_same_options & is_below


def _of_partitions(segments: DataFrame, digest: str) -> DataFrame:
    """Return one row per partition; `segments` has one row per segment."""
    is_needed, was_read, is_as_it_was = (F.col(name) for name in ("is_needed", "was_read", "is_as_it_was"))
    is_retry = is_needed & is_as_it_was & ~was_read
    is_wanted = is_needed & ~(is_as_it_was & was_read)
    is_left_out = F.isnotnull("base_offset") & ~is_needed & F.isnull("known_run")
    wanted = F.struct("topic_id", *_WANTED, F.when(is_retry, F.col("known_message")).alias("not_read"))
    counted = segments.groupBy(*PARTITION_KEY).agg(
        F.any_value("partition_state").alias("of_it"),
        F.count("base_offset").alias("segment_count"),
        F.count_if(is_wanted).alias("decode_count"),
        F.count_if(is_retry).alias("retry_count"),
        # `bytes_to_read` is 0 for a collected segment: its host decoded it.
        F.sum(F.when(is_wanted, F.col("bytes_to_read")).otherwise(0)).alias("decode_bytes"),
        F.count_if(is_left_out).alias("left_out_count"),
        F.sum(F.when(is_left_out, F.col("size_bytes")).otherwise(0)).alias("left_out_bytes"),
        F.array_sort(F.collect_list(F.when(is_wanted, wanted))).alias("wanted"),
        F.max("known_run").alias("newest_decode"),
    )
    of_it = F.col("of_it")
    replayed = of_it["replayed"]
    is_as_replayed = is_true(
        (replayed["fingerprint"] == F.concat_ws(":", of_it["fingerprint"], F.lit(digest)))
        & ~of_it["is_lost"]
        & (F.col("decode_count") == F.col("retry_count"))
        & (F.coalesce("newest_decode", F.lit(-1)) <= replayed["run"])
    )
    unread_count = F.coalesce(F.when(is_as_replayed, replayed["unread_count"]), F.lit(0).cast("long"))
    return counted.select(
        *PARTITION_KEY,
        of_it["start_offset"].alias("start_offset"),
        (~is_as_replayed).alias("is_changed"),
        *("segment_count", "decode_count", "retry_count", "decode_bytes", "left_out_count", "left_out_bytes", "wanted"),
        *(of_it[name].alias(name) for name in ("finding_count", "copy_count", "unknown_encryption")),
        unread_count.alias("unread_count"),
    )


def _is_as_it_was(was_not_read: Column, *, check_crc: bool) -> Column:
    """Return a condition: the newest decode of the segment is valid for the listed file, and is divided at all `cuts`.

    Args:
        was_not_read: condition that the newest decode could not read the segment.
        check_crc: treat a decode without a CRC check as outdated.
    """
    known, end = F.col("known"), F.col("next_base_offset")
    # An active segment may end with an incomplete batch; in a closed segment such a batch is damage. So if the segment
    # was active at its decode, the decode is valid only if the file ended with a complete batch.
    was_rolled_when_sound = (
        F.isnull(known["next_base_offset"])
        & (known["valid_bytes"] == known["size_bytes"])
        & (known["size_bytes"] > 0)
        & (known["last_offset"] < end)
    )
    ends_as_it_did = end.eqNullSafe(known["next_base_offset"]) | is_true(was_rolled_when_sound)
    # The replay needs a state at an offset inside the segment, and no part of the decode starts at this offset.
    has_new_cuts = F.exists(
        "cuts",
        lambda cut: (
            (F.isnotnull("next_base_offset") | (cut <= known["last_offset"] + 1))
            & ~F.array_contains("known_starts", cut)
        ),
    )
    is_other = F.exists(
        "lost_decodes", lambda each: (each["base_offset"] == F.col("base_offset")) & (each["run"] >= known["run"])
    )
    is_same = (
        (F.col("size_bytes") == known["size_bytes"])
        & (F.col("modified_ns") == known["modified_ns"])
        & F.col("topic_id").eqNullSafe(known["topic_id"])
        & ends_as_it_did
        & (~has_new_cuts | is_true(was_not_read))
        & ~is_true(is_other)
    )
    if check_crc:
        is_same &= known["crc_checked"]
    return is_true(is_same)
