"""`tiersnap report`: the readiness of a warehouse, as a table and as a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from tiersnap.jobs.disks import disks_below
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.report_diff import report_diff
from tiersnap.jobs.tables import audit, copies, failover, last_run, readiness
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.report import (
    COLUMNS,
    By,
    RunCounts,
    RunInfo,
    partition_rows,
    segment_rows,
    summarise,
    topic_rows,
    write_report,
)
from tiersnap.snapshot.report.exactly_once import ExactlyOnce
from tiersnap.snapshot.tables.remote_log_segments import unneeded
from tiersnap.snapshot.tables.schemas import READINESS
from tiersnap.snapshot.tasks.judge_partition import JudgePartition

_COUNTS = ("segments_decoded", "bytes_decoded", "snapshots_written", "segments_tiered", "bytes_tiered")


@click.group(invoke_without_command=True)
@click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables.")
@click.option("--source", help="Named in the commands that clear a verdict.  [default: that of the last run]")
@click.option("--remote", help="Likewise.")
@click.option("--by", type=click.Choice([by.value for by in By]), default=By.PARTITION.value, show_default=True)
@click.option(
    "--to",
    "folder",
    type=LocalPath(file_okay=False),
    help="Also write the page, JSON and CSV here.",
)
@click.option("--replace", is_flag=True, help="Judge as a run with --replace does.")
@params.producer_expiration_option
@params.now_option
@params.output_option
@click.pass_context
def report(
    ctx: click.Context,
    warehouse: str,
    source: str | None,
    remote: str | None,
    by: str,
    folder: Path | None,
    replace: bool,
    producer_expiration: int | None,
    now: int,
) -> int:
    """Show where every segment stands: verdict, reason, and the command that clears it; no Java.

    Facts are those of the last run, verdicts are of now.
    """
    if ctx.invoked_subcommand is not None:
        return ExitCode.OK
    output = ctx.ensure_object(Output)
    judge = JudgePartition(replace, now, producer_expiration)
    rows = pa.Table.from_batches(readiness(warehouse, judge), schema=READINESS)
    info = _run_info(last_run(warehouse), warehouse, source, remote, now)
    summary = summarise(rows, info)
    grain = By(by)
    shown = {
        By.SEGMENT: lambda: segment_rows(rows, info),
        By.PARTITION: lambda: partition_rows(summary),
        By.TOPIC: lambda: topic_rows(summary),
    }[grain]()
    left = list(unneeded(copies(warehouse)))
    named = [f"{row['topic']}-{row['partition']} at {row['start_offset']}: {row['segment_id']}" for row in left]
    output.rows("report", shown, columns=COLUMNS[grain], summary={"unneeded_copies": named} if named else {})
    if left:
        output.talk(
            f"{len(left)} copies were never finished, or hold what others hold; those that no cluster knows go with "
            f"{_remove_orphans(info)}"
        )
    if folder is not None:
        write_report(summary, folder, ExactlyOnce(audit(warehouse), failover(warehouse)))
        output.talk(f"wrote {folder}/index.html, readiness.json, readiness.csv and what they point to")
    return ExitCode.OK


def _run_info(last: Mapping[str, Any], warehouse: str, source: str | None, remote: str | None, now: int) -> RunInfo:
    """What is known of the run that the facts are of, as it is looked at now."""
    settings = last.get("settings", {})
    sources = (source,) if source else tuple(settings.get("sources", ()))
    collected = settings.get("collected", {})
    return RunInfo(
        run_id=last.get("run_id", ""),
        started_at=now,
        finished_at=now,
        source=", ".join(sources) or "LOGDIR",
        remote=remote or settings.get("remote", ""),
        warehouse=warehouse,
        version=__version__,
        applied=settings.get("apply", False),
        sources=sources,
        collected=collected,
        counts=RunCounts(**{name: last[name] for name in _COUNTS if name in last}),
        disks=disks_below(set(sources) - set(collected)),
        options={command: tuple(words) for command, words in settings.get("options", {}).items()},
    )


def _remove_orphans(info: RunInfo) -> str:
    """The command, as far as it is known."""
    kept = info.options.get("maintain remove-orphans", ())
    place = shlex.quote(info.remote) if info.remote else "REMOTE"
    server = "" if "--bootstrap-server" in kept else "--bootstrap-server HOST:PORT"
    words = ["tiersnap maintain remove-orphans --remote", place, shlex.join(kept), server]
    return " ".join(word for word in words if word)


report.add_command(report_diff)
