"""What `tier` shows: a row a partition, what failed, and what comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tiersnap.jobs.again import again, host_commands
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.encryption import tell_unknown_encryption
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.jobs.tell.finished_copies import tell_finished_copies
from tiersnap.jobs.tell.left_to_brokers import tell_left_to_brokers
from tiersnap.jobs.tell.leftovers import by_kind, tell_leftovers
from tiersnap.jobs.tell.mended import tell_mended
from tiersnap.remote_storage.retire.store_leftovers import SweptStore
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.readiness.exit_codes import next_steps
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.tables.listed import Encryption

COLUMNS = ("partition", "segments", "tiered", "verdicts", "findings")


def show(
    output: Output,
    done: HostOutcome,
    info: RunInfo,
    report: Path | None,
    log_dirs: Sequence[NamedLogDir],
    swept: SweptStore,
    unknown_topics: Iterable[str],
) -> None:
    """Show the result.

    Args:
        report: the folder of the page, None if none was written.
        swept: what killed processes had left in the store.
        unknown_topics: those of --topic-ids that have no partition here.
    """
    where = ("log_dir",) if len(log_dirs) > 1 else ()
    summary = {
        "run_id": info.run_id,
        "snapshots_written": info.counts.snapshots_written,
        "snapshots_mended": info.counts.snapshots_mended,
        "segments_tiered": info.counts.segments_tiered,
        "bytes_tiered": info.counts.bytes_tiered,
        "leftovers_removed": by_kind(done.leftovers_removed, swept),
        "encryption": dict(done.encryption),
        **({} if report is None else {"report": str(report / "index.html")}),
    }
    rows, columns = map(_row, done.partitions), (*where, *COLUMNS)
    output.row_dicts("tier", rows, columns=columns, summary=summary, findings=done.findings, errors=done.errors)
    tell_failures(output, done.errors, len(done.errors))
    tell_mended(output, info.counts.snapshots_mended)
    tell_leftovers(output, done.leftovers_removed, swept)
    tell_left_to_brokers(output, done.verdicts)
    commands = host_commands([each.uri for each in log_dirs], info.remote)
    for line in next_steps(done.verdicts, lambda verdict: commands.next_step(verdict, done.file_of(verdict))):
        output.warn(line)  # a cron line that is quiet mails it
    if not info.applied:
        tell_unknown_encryption(output, done.encryption[Encryption.UNKNOWN])
        output.talk(f"nothing was written to remote storage; next: {again('--apply')}")
    elif done.copies_finished:
        tell_finished_copies(output, done.copies_finished)
    elif not info.counts.segments_tiered and not info.counts.snapshots_written:
        output.talk("no object was written" if done.errors else "nothing to do: no object was written")
    for topic in unknown_topics:
        output.warn(f"--topic-ids: no partition of the topic {topic} in {info.source}")


def _row(each: HostPartition) -> dict[str, object]:
    return {
        "log_dir": each.log_dir,
        "partition": each.partition.name,
        "segments": len(each.readiness),
        "tiered": sum(row["state"] == "COPY_SEGMENT_FINISHED" for row in each.tiered),
        "verdicts": dict(Counter(row["verdict"] for row in each.readiness).most_common()),
        "findings": len(each.findings),
    }
