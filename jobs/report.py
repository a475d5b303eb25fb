"""`tiersnap report`: the readiness of a warehouse, as a table and as a page."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import SourceNotFoundError
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
@params.output_option
@click.pass_obj
def report(output: Output, warehouse: str, source: str, remote: str, by: str, folder: Path | None) -> int:
    """Show what the last run said of every segment: verdict, reason, and the command that clears it."""
    from tiersnap.jobs.warehouse import Warehouse

    rows = Warehouse(warehouse).read("readiness")
    if rows.num_rows == 0:
        raise SourceNotFoundError(
            f"{warehouse}: no readiness in this warehouse", hint="tiersnap run --source LOGDIR --remote URI fills it"
        )
    now = int(time.time() * 1000)
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
