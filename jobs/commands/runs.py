"""`tiersnap runs`: what a warehouse remembers of its runs, without a JVM."""

from __future__ import annotations

from typing import Any

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.output import Output
from tiersnap.jobs.reporting import tables
from tiersnap.jobs.tell.runs import show_list, show_one
from tiersnap.snapshot.errors import ExitCode, UsageError

warehouse_option = click.option(
    "--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables."
)


@click.group()
def runs() -> None:
    """Runs that changed something; a run that found nothing new leaves no row."""


@runs.command("list")
@warehouse_option
@params.output_option
@click.pass_obj
def list_runs(output: Output, warehouse: str) -> int:
    """List the runs of a warehouse, the newest first."""
    show_list(output, _recorded(warehouse))
    return ExitCode.OK


@runs.command("show")
@click.argument("run_id", metavar="RUN_ID")
@warehouse_option
@params.output_option
@click.pass_obj
def show_run(output: Output, run_id: str, warehouse: str) -> int:
    """Show what one run was asked to do and what it did; `last` is the newest."""
    found = next((each for each in _recorded(warehouse) if run_id in ("last", each["run_id"])), None)
    if found is None:
        raise UsageError(f"{warehouse}: no run {run_id!r}", hint="tiersnap runs list shows them")
    show_one(output, found)
    return ExitCode.OK


def _recorded(warehouse: str) -> list[dict[str, Any]]:
    """The runs of a warehouse, the newest first.

    Raises:
        SourceNotFoundError: there are none.
    """
    found = tables.runs(warehouse)
    if not found:
        raise tables.no_rows(warehouse, "no run is recorded here")
    return found
