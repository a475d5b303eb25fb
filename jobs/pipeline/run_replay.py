"""The middle stages of a run: decode, replay, and append rows about remote segments and deleted partitions."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import counts, decoding, replaying, schemas, unread, verdicts
from tiersnap.jobs.pipeline.changes import CHANGED
from tiersnap.jobs.pipeline.decoding import DecodeSegments
from tiersnap.jobs.pipeline.known import ended_facts
from tiersnap.jobs.pipeline.replaying import ReplayPartition
from tiersnap.jobs.pipeline.run_context import RunContext
from tiersnap.jobs.pipeline.run_listing import RunListing, changes_of, gone, remote_differences
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.jobs.pipeline.totals import RunTotals
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY
from tiersnap.snapshot.units import count_of


def decode_changed(run: RunContext, changed: DataFrame, totals: RunTotals) -> bool:
    """Decode the new and changed segments; return whether rows were committed."""
    if not totals.decode_count:
        run.talk("decoded nothing: no segment is new or changed")
        return False
    task = DecodeSegments(run.settings.check_crc, run.number)
    work = decoding.Work(totals.decode_count, totals.decode_bytes)
    rows = decoding.decode(decoding.wanted_segments(changed), task, work)
    if totals.retry_count == totals.decode_count:
        # All segments are retries after a read error. Commit only if one of them can be read now.
        rows = run.warehouse.keep("decoded", rows, schemas.SEGMENTS)
        if rows.isEmpty():
            run.talk(
                f"decoded nothing: {count_of(totals.retry_count, 'segment')} could not be read before, and "
                "still cannot be read"
            )
            return False
    run.append("segments", rows)
    outcome = run.outcome
    outcome.counts = replace(outcome.counts, segments_decoded=totals.decode_count, bytes_decoded=totals.decode_bytes)
    run.talk(f"decoded {count_of(totals.decode_count, 'new or changed segment')}")
    return True


def replay_changed(run: RunContext, listed: DataFrame, totals: RunTotals, *, has_decoded: bool) -> None:
    """Replay the changed partitions.

    Args:
        run: the run.
        listed: the listed partitions (schema LISTED), one replica each.
        totals: sums of the listing.
        has_decoded: the decode stage of this run committed rows.
    """
    has_reread = has_decoded and totals.retry_count > 0
    if not (has_decoded or totals.changed or totals.unread_count):
        run.talk("replayed nothing: no partition has changed")
        return
    wanted = _changed(run, listed, totals, reads_again=bool(totals.unread_count) or has_reread)
    if not wanted.partitions:
        run.talk("replayed nothing: no partition has changed")
        return
    options, settings = run.settings.replay, run.settings
    sink = StoredSnapshots(run.store, settings.run_id, options.replace) if settings.uploads else None
    task = ReplayPartition(options, sink, run.number, settings.now, run.look)
    tables = run.warehouse.read("segments"), run.warehouse.read("partitions")
    given = replaying.partition_input(listed, wanted, *tables, is_bounded=run.is_bounded)
    run.append("partitions", replaying.replay(given, task, tasks=min(wanted.partitions, run.most_tasks)))
    counts.count_replayed(run.outcome, run.warehouse.read("partitions"), run.number)
    written = count_of(run.outcome.counts.snapshots_written, "snapshot")
    run.talk(f"replayed {count_of(wanted.partitions, 'partition')}, wrote {written}")


def _changed(run: RunContext, listed: DataFrame, totals: RunTotals, *, reads_again: bool) -> replaying.Changed:
    """Return the partitions to replay.

    Args:
        run: the run.
        listed: the listed partitions (schema LISTED), one replica each.
        totals: sums of the listing.
        reads_again: try again to read snapshot files that an earlier run could not read. If a file can be read now, or
            fails with another error, its partition is replayed too.
    """
    changed = changes_of(run, listed)
    if reads_again:
        answers = unread.look(unread.unread_snapshots(changed, listed, run.warehouse.read("partitions")))
        kept = run.warehouse.keep("answered", answers, of_arrow(unread.ANSWERED))
        changed = unread.answered(changed, kept)
    rows = changed.where("is_changed").select(*PARTITION_KEY, "start_offset", "segment_count")
    rows = run.warehouse.keep("changed", rows, of_arrow(CHANGED))
    count, segments = totals.changed, totals.changed_segments
    if reads_again:
        found = rows.agg(F.count("*").alias("partitions"), F.sum("segment_count").alias("segments")).collect()[0]
        count, segments = found.partitions, found.segments or 0
    return replaying.Changed(rows.select(*PARTITION_KEY, "start_offset"), count, segments)


def remember(run: RunContext, found: RunListing, totals: RunTotals) -> None:
    """Append rows about changed remote segments. Mark the facts and verdicts of deleted partitions as ended."""
    if totals.differences:
        run.append("remote_log_segments", remote_differences(run, found.listed))
    if totals.gone:
        missing, settings = gone(run, found), run.settings
        ended = verdicts.gone(
            verdicts.current(run.warehouse.read("readiness"), missing), run=run.number, now=settings.now
        )
        # Append to readiness first. If the run is killed here, the next run finds the same partitions deleted.
        if not ended.isEmpty():
            run.append("readiness", ended)
        ends = ended_facts(run.warehouse.read("partitions"), missing, run=run.number)
        run.append("partitions", missing.unionByName(ends))
        fate = "no longer in the log directory"
        if run.settings.leaders or found.leaders is not None:
            fate += ", or led by another broker"
        run.talk(f"gone since an earlier run: {count_of(totals.gone, 'partition')} ({fate})")
