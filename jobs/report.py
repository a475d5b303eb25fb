"""`tiersnap report`: the readiness of a warehouse, as a table and as a page."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.tables import readiness
from tiersnap.snapshot import __version__
from tiersnap.snapshot.report import (
    COLUMNS,
    By,
    RunInfo,
    partition_rows,
    segment_rows,
    summarise,
    topic_rows,
    write_report,
)
from tiersnap.snapshot.tables.schemas import READINESS
from tiersnap.snapshot.tasks.judge_partition import JudgePartition


@click.command()
@click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables.")
@click.option("--source", default="LOGDIR", help="Named in the commands that clear a verdict.")
@click.option("--remote", default="", help="Likewise.")
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
@click.pass_obj
def report(
    output: Output,
    warehouse: str,
    source: str,
    remote: str,
    by: str,
    folder: Path | None,
    replace: bool,
    producer_expiration: int | None,
    now: int,
) -> int:
    """Show where every segment stands: verdict, reason, and the command that clears it; no Java.

    Facts are those of the last run, verdicts are of now.
    """
    judge = JudgePartition(replace, now, producer_expiration)
    rows = pa.Table.from_batches(readiness(warehouse, judge), schema=READINESS)
    info = RunInfo("", now, now, source, remote, warehouse, __version__, applied=False)
    summary = summarise(rows, info)
    grain = By(by)
    shown = {
        By.SEGMENT: lambda: segment_rows(rows, info),
        By.PARTITION: lambda: partition_rows(summary),
        By.TOPIC: lambda: topic_rows(summary),
    }[grain]()
    output.rows("report", shown, columns=COLUMNS[grain])
    if folder is not None:
        write_report(summary, folder)
        output.talk(f"wrote {folder}/index.html, readiness.json and readiness.csv")
    return 0
