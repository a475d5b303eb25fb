"""Stage 2, changed: each listed partition beside what the tables know of it.

A partition whose snapshot file could not be read is changed if the file gives another answer now.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import matching, of_batches
from tiersnap.jobs.pipeline.tiering import newest_facts
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.snapshot.log.findings import NOT_READ
from tiersnap.snapshot.replay.remote_listing import Encryption
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.list_partitions import look_again

_KNOWN = (
    *("run", "topic_id", "next_base_offset", "size_bytes", "modified_ns", "crc_checked"),
    *("valid_bytes", "last_offset", "finding_kind", "message"),
)
_WANTED = ("base_offset", "next_base_offset", "size_bytes", "modified_ns", "cuts", "decode")
_REPLAYED = ("fingerprint", "state_offset", "state_chain", "high_watermark", "unread_count")
_LOST = ("SnapshotVanishedError", "SnapshotChangedError", "SegmentChangedError")


def _texts(values: Iterable[str]) -> str:
    """Words as SQL has them between brackets."""
    return ", ".join(f"'{value}'" for value in values)


def _with_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """All rows of a table: no part of a key is null.

    Spark infers that for a join, and Delta Lake asks its log once for each set of filters of a query.
    """
    return rows.where(" and ".join(f"{name} is not null" for name in key))


def known_decodes(segments: DataFrame) -> DataFrame:
    """`segments` -> one row a segment: `known`, the newest decode, and its runs' starts in `known_starts`."""
    rows = newest(_with_key(segments, SEGMENT_KEY).select(*SEGMENT_KEY, *_KNOWN, "run_start_offset"), SEGMENT_KEY)
    known = F.expr(f"any_value(struct({', '.join(_KNOWN)}))").alias("known")
    return rows.groupBy(*SEGMENT_KEY).agg(known, F.collect_set("run_start_offset").alias("known_starts"))


def last_replayed(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """`partitions` -> PARTITION_KEY and `replayed`: `kind` (REPLAYED or GONE), `run`, fields of the newest replay."""
    rows = _with_key(partitions, PARTITION_KEY).where(f"kind in ({_texts((FactKind.REPLAYED, FactKind.GONE))})")
    fields = ", ".join(("kind", "run", *names))
    return rows.groupBy(*PARTITION_KEY).agg(F.expr(f"max_by(struct({fields}), run)").alias("replayed"))


def still_there(partitions: DataFrame, names: Sequence[str] = _REPLAYED) -> DataFrame:
    """The rows of `last_replayed` of partitions that were not found gone since."""
    return last_replayed(partitions, names).where(f"replayed.kind = '{FactKind.REPLAYED}'")


def lost(remote_log_segments: DataFrame) -> DataFrame:
    """`remote_log_segments` -> topic_id, partition, and what runs found gone or changed when they came to tier.

    `lost_run` is the last run that did: what the tables say is not true any more, so the partition is replayed from its
    beginning. `lost_decodes` are the runs (`base_offset`, `run`) that found a segment to be another than its decode,
    though its size and its time are as they were. `last_run` is the last run of all.
    """
    lost_run = f"max(if(error_type in ({_texts(_LOST)}), run, null))"
    decodes = "collect_list(if(error_type = 'SegmentChangedError', struct(base_offset, run), null))"
    rows = _with_key(remote_log_segments, ("topic_id", "partition"))
    return rows.groupBy("topic_id", "partition").agg(
        F.expr(lost_run).alias("lost_run"), F.expr(decodes).alias("lost_decodes"), F.max("run").alias("last_run")
    )


def newest_runs(segments: DataFrame, partitions: DataFrame, remote: DataFrame, runs: DataFrame) -> DataFrame:
    """The tables -> one row: `newest`, the greatest number of a run in any of them, and `recorded`, that in `runs`.

    `recorded` is less if the last runs were killed half way; `settings` are those of that row. All are null before the
    first run. What the rows of this module are made of is asked, so that no table is read once more.
    """
    numbers = (
        known_decodes(segments).select("known.run"),
        last_replayed(partitions).select("replayed.run"),
        lost(remote).select(F.col("last_run").alias("run")),
        # Delta Lake would ask its log twice for a maximum of all rows.
        runs.where("run > 0").select("run", "settings"),
    )
    maxima = [
        rows.agg(
            F.max("run").alias("newest"),
            F.lit(rows is numbers[-1]).alias("is_runs"),
            (F.max_by("settings", "run") if rows is numbers[-1] else F.lit(None).cast("string")).alias("settings"),
        )
        for rows in numbers
    ]
    recorded = F.expr("max(if(is_runs, newest, null))").alias("recorded")
    found = reduce(DataFrame.unionByName, maxima)
    return found.agg(F.max("newest").alias("newest"), recorded, F.max("settings").alias("settings"))


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
    not_read = f"known.finding_kind in ({_texts(NOT_READ)})"
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


def gone_partitions(
    partitions: DataFrame, listed: DataFrame, *, sources: Sequence[str], topics: re.Pattern[str] | None, run: int
) -> DataFrame:
    """Return rows to append to the table `partitions`: GONE, for each that this run looked for in vain.

    `listed` is PARTITION_KEY of what was found; `sources` and `topics` say where and what the run looked for.
    """
    # One condition, which is not pushed down: the table is read as the changes read it.
    is_looked_for = F.when(F.col("replayed.kind") == str(FactKind.REPLAYED), F.col("log_dir").isin(list(sources)))
    missing = last_replayed(partitions).where(is_looked_for).select(*PARTITION_KEY)
    missing = missing.join(listed, on=list(PARTITION_KEY), how="left_anti")
    if topics is not None:
        missing = missing.mapInArrow(matching(topics), schemas.ANSWERED)
    key = {name: name for name in PARTITION_KEY}
    values = key | {"kind": f"'{FactKind.GONE}'", "part": "0", "run": str(run)}
    return missing.selectExpr(*schemas.columns_of(schemas.PARTITIONS, values))


_log = logging.getLogger(__name__)

Keep = Callable[[DataFrame], DataFrame]


@contextmanager
def kept() -> Iterator[Keep]:
    """Give a function that caches a DataFrame until the block ends.

    A cache is of the session, and answers a later DataFrame with the same plan: what a failed run left in it would be
    what the next one finds.
    """
    frames: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        try:
            frames.append(rows.persist())
        except PySparkException:
            # A serverless session has no cache: the rows are computed each time.
            _log.debug("the session caches nothing", exc_info=True)
        return rows

    try:
        yield keep
    finally:
        for rows in reversed(frames):
            try:
                rows.unpersist()
            except Exception:
                # The session is gone, and its cache with it. What the block itself raised says more.
                _log.debug("a cached DataFrame could not be dropped", exc_info=True)


def unread_snapshots(changes: DataFrame, listed: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return UNREAD rows of the partitions that are as they were replayed, by rows of `partition_changes`."""
    key = list(PARTITION_KEY)
    among = changes.where("unread_count > 0").select(*key)
    boundaries = newest_facts(partitions, among, [FactKind.BOUNDARY]).where("not_read is not null")
    files = listed.select(*key, F.explode("snapshots").alias("file")).select(*key, "file.end_offset", "file.object")
    unread = boundaries.select(*key, F.col("offset").alias("end_offset"), "not_read")
    return files.join(unread, on=[*key, "end_offset"]).select(*schemas.UNREAD.names)


def look(unread: DataFrame) -> DataFrame:
    """UNREAD -> ANSWERED rows: the partitions of which a file gives another answer now."""
    return unread.mapInArrow(of_batches(look_again), schemas.ANSWERED).distinct()


def answered(changes: DataFrame, answers: DataFrame) -> DataFrame:
    """`changes`, where partitions with ANSWERED rows have changed."""
    found = answers.withColumn("_answered", F.lit(True))
    joined = changes.join(found, on=list(PARTITION_KEY), how="left")
    return joined.withColumn("is_changed", F.expr("is_changed or coalesce(_answered, false)")).drop("_answered")
