"""Stage 2, changed: each listed partition beside what the tables know of it.

A partition whose snapshot file could not be read is changed if the file gives another answer now; see `unread`.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.known import known_decodes, lost, still_there, texts
from tiersnap.jobs.pipeline.unread import ANSWERED
from tiersnap.snapshot.log.findings import NOT_READ
from tiersnap.snapshot.replay.remote_listing import Encryption
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

_WANTED = ("base_offset", "next_base_offset", "size_bytes", "modified_ns", "cuts", "decode")
# What a run keeps of the partitions that it replays.
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
    """One row a listed partition: what has to be done about it.

    Args:
        listed: LISTED rows.
        segments, partitions, remote_log_segments: the tables.
        options_digest: ReplayOptions.digest of this run.
        check_crc: decode again what was decoded without.
    Returns:
        PARTITION_KEY, `start_offset` (of the state that a replay may start from, kept or vouched for by a claim in
        remote storage, or null), `is_changed`, `segment_count`, `decode_count`, `retry_count` (those of them that are
        tried again only because they could not be read), `decode_bytes`, `left_out_count` and `left_out_bytes` (of
        segments that no run has decoded and that need no decode: in remote storage, or before the scan window),
        `wanted` (array of the segments to decode: WANTED's columns from base_offset on, with topic_id),
        `finding_count`, `copy_count`, `unknown_encryption` (1 of a partition of which no manifest shows whether the
        plugin encrypts, else 0), and `unread_count` (of snapshot files that could not be read, where the
        partition is as it was replayed; see `unread`).
    """
    rows = _segments(listed, partitions, remote_log_segments, options_digest)
    rows = rows.join(known_decodes(segments), on=list(SEGMENT_KEY), how="left")
    not_read = f"known.finding_kind in ({texts(NOT_READ)})"
    of_segment = rows.selectExpr(
        *(*PARTITION_KEY, "topic_id", "partition_state", "base_offset", "known.run as known_run"),
        "if(decode is null, size_bytes, 0L) as bytes_to_read",
        *(*_WANTED[1:], "known.message as known_message"),
        f"not coalesce({not_read}, false) as was_read",
        f"{_is_as_it_was(check_crc, not_read)} as is_as_it_was",
        # What is in remote storage is read only if there is no state beyond it to start from.
        """base_offset is not null
        and (not is_tiered or coalesce(next_base_offset > coalesce(partition_state.start_offset, -1L), true))
        and coalesce(base_offset >= partition_state.window_offset, true) as is_needed""",
    )
    return _of_partitions(of_segment, options_digest)


def _segments(listed: DataFrame, partitions: DataFrame, remote_log_segments: DataFrame, digest: str) -> DataFrame:
    """One row a segment, or one without, a partition: SEGMENT_FILES, `partition_state` and `lost_decodes`."""
    # Snapshots are stored up to the high watermark of the run that kept the state, and the state at that of this run
    # says which transactions hold the last stable offset. One that is not known is below.
    may_start = f"""not is_lost
        and exists(segments, s -> s.base_offset = replayed.state_offset and s.chain = replayed.state_chain)
        and substring_index(replayed.fingerprint, ':', -1) = '{digest}'
        and high_watermark >= replayed.state_offset and replayed.high_watermark >= replayed.state_offset"""
    claimed = "snapshot_offset"
    known = listed.join(still_there(partitions), on=list(PARTITION_KEY), how="left")
    known = known.join(lost(remote_log_segments), on=["topic_id", "partition"], how="left")
    of_it = known.selectExpr(
        *(*PARTITION_KEY, "topic_id", "segments", "lost_decodes", "replayed", "fingerprint", "high_watermark"),
        *(
            "snapshot_offset",
            "window_offset",
            "encryption",
            "size(findings) as finding_count",
            "size(copies) as copy_count",
        ),
        "coalesce(lost_run >= replayed.run, false) as is_lost",
    )
    state = f"""struct(
        coalesce(if({may_start}, replayed.state_offset, null), {claimed}) as start_offset, window_offset, is_lost,
        replayed, fingerprint, finding_count, copy_count,
        cast(coalesce(encryption, '') = '{Encryption.UNKNOWN}' as bigint) as unknown_encryption)"""
    columns = (*PARTITION_KEY, "topic_id", "lost_decodes", "partition_state")
    # In a selection of its own: beside an explode it would be computed, and look at all segments, for each segment.
    with_state = of_it.selectExpr(*columns[:-1], "segments", f"{state} as partition_state")
    return with_state.selectExpr(*columns, "explode_outer(segments) as segment").selectExpr(*columns, "segment.*")


def _of_partitions(segments: DataFrame, digest: str) -> DataFrame:
    """Rows of one segment each -> one row a partition."""
    is_retry = "(is_needed and is_as_it_was and not was_read)"
    is_wanted = "(is_needed and not (is_as_it_was and was_read))"
    is_left_out = "(base_offset is not null and not is_needed and known_run is null)"
    wanted = f"struct(topic_id, {', '.join(_WANTED)}, if({is_retry}, known_message, null) as not_read)"
    counted = segments.groupBy(*PARTITION_KEY).agg(
        F.any_value("partition_state").alias("of_it"),
        F.count("base_offset").alias("segment_count"),
        F.expr(f"count_if({is_wanted})").alias("decode_count"),
        F.expr(f"count_if({is_retry})").alias("retry_count"),
        # A host that collects has read the bytes already.
        F.expr(f"sum(if({is_wanted}, bytes_to_read, 0L))").alias("decode_bytes"),
        F.expr(f"count_if({is_left_out})").alias("left_out_count"),
        F.expr(f"sum(if({is_left_out}, size_bytes, 0L))").alias("left_out_bytes"),
        F.expr(f"array_sort(collect_list(if({is_wanted}, {wanted}, null)))").alias("wanted"),
        F.max("known_run").alias("newest_decode"),
    )
    is_as_replayed = f"""coalesce(
        of_it.replayed.fingerprint = concat_ws(':', of_it.fingerprint, '{digest}') and not of_it.is_lost
        and decode_count = retry_count and coalesce(newest_decode, -1L) <= of_it.replayed.run, false)"""
    return counted.selectExpr(
        *(*PARTITION_KEY, "of_it.start_offset", f"not {is_as_replayed} as is_changed"),
        *("segment_count", "decode_count", "retry_count", "decode_bytes", "left_out_count", "left_out_bytes", "wanted"),
        *("of_it.finding_count", "of_it.copy_count", "of_it.unknown_encryption"),
        f"coalesce(if({is_as_replayed}, of_it.replayed.unread_count, null), 0L) as unread_count",
    )


def _is_as_it_was(check_crc: bool, not_read: str) -> str:
    """Return the SQL condition that a segment is what was decoded."""
    # What is normal at the end of the active segment is damage in a closed one, so only a sound end needs no new look.
    ends_as_it_did = """(next_base_offset <=> known.next_base_offset or coalesce(known.next_base_offset is null
        and known.valid_bytes = known.size_bytes and known.size_bytes > 0
        and known.last_offset < next_base_offset, false))"""
    # Whether a state is wanted inside the segment where its runs were not cut.
    has_new_cuts = """exists(cuts, cut -> (next_base_offset is not null or cut <= known.last_offset + 1)
        and not array_contains(known_starts, cut))"""
    is_other = "exists(lost_decodes, each -> each.base_offset = base_offset and each.run >= known.run)"
    same = f"""size_bytes = known.size_bytes and modified_ns = known.modified_ns and topic_id <=> known.topic_id
        and {ends_as_it_did} and (not {has_new_cuts} or coalesce({not_read}, false))
        and not coalesce({is_other}, false)"""
    if check_crc:
        # What was taken on trust before is looked at now.
        same += " and known.crc_checked"
    return f"coalesce({same}, false)"
