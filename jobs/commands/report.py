"""`tiersnap report`: the readiness of a warehouse, as a table and as a page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
import pyarrow as pa

from tiersnap.jobs.commands.report_diff import report_diff
from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.reporting.disks import disks_below
from tiersnap.jobs.reporting.tables import audit, copies, failover, last_run, readiness
from tiersnap.jobs.tell.report import show
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.readiness.copy_task import LEFT_FOR_MS, BesideBrokers
from tiersnap.snapshot.report import By, summarise, write_report
from tiersnap.snapshot.report.exactly_once import ExactlyOnce
from tiersnap.snapshot.report.of_last_run import last_run_info
from tiersnap.snapshot.tables.remote_log_segments import unneeded
from tiersnap.snapshot.tables.schemas import READINESS
from tiersnap.snapshot.tasks.judge_partition import JudgePartition


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
    last = last_run(warehouse)
    beside = BesideBrokers(now, last.get("settings", {}).get("left_for", LEFT_FOR_MS))
    judge = JudgePartition(replace, now, producer_expiration, beside=beside)
    rows = pa.Table.from_batches(readiness(warehouse, judge), schema=READINESS)
    info = last_run_info(last, warehouse, source, remote, at=params.clock(ctx), now=now)
    info = dataclasses.replace(info, disks=disks_below(set(info.sources) - set(info.collected)))
    summary = summarise(rows, info)
    show(output, By(by), rows, summary, info, list(unneeded(copies(warehouse))))
    if folder is not None:
        write_report(summary, folder, ExactlyOnce(audit(warehouse), failover(warehouse)))
        output.talk(f"wrote {folder}/index.html, readiness.json, readiness.csv and what they point to")
    return ExitCode.OK


report.add_command(report_diff)
