"""`tiersnap runs`: what a warehouse remembers of its runs, without a JVM."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.shown import in_words
from tiersnap.jobs.tables import read_table
from tiersnap.snapshot.errors import ExitCode, SourceNotFoundError, UsageError
from tiersnap.snapshot.tables.schemas import RUNS
from tiersnap.snapshot.units import human_bytes

_COLUMNS = ("run_id", "started", "took", "decoded", "snapshots_written", "segments_tiered", "tiered", "errors")

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
    rows = [{name: value for name, value in row.items() if name != "settings"} for row in _runs(warehouse)]
    if output.format is Format.TABLE:
        rows = [row | _for_people(row) for row in rows]
    output.rows("runs list", rows, columns=_COLUMNS)
    return ExitCode.OK


@runs.command("show")
@click.argument("run_id", metavar="RUN_ID")
@warehouse_option
@params.output_option
@click.pass_obj
def show_run(output: Output, run_id: str, warehouse: str) -> int:
    """Show what one run was asked to do and what it did; `last` is the newest."""
    known = _runs(warehouse)
    found = next((row for row in known if run_id in ("last", row["run_id"])), None)
    if found is None:
        raise UsageError(f"{warehouse}: no run {run_id!r}", hint="tiersnap runs list shows them")
    row = {**found, "settings": json.loads(found["settings"])}
    if output.format is not Format.TABLE:
        output.document("runs show", row)
        return ExitCode.OK
    facts = {**{name: value for name, value in row.items() if name != "settings"}, **_for_people(row)}
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' '):<20}{in_words(value)}")
    for name, value in row["settings"].items():
        click.echo(f"  {name:<20}{json.dumps(value)}")
    return ExitCode.OK


def _runs(warehouse: str) -> list[dict[str, Any]]:
    """Rows of the table `runs`, the newest first.

    Raises:
        SourceNotFoundError: there are none.
    """
    found: list[dict[str, Any]] = read_table(warehouse, "runs", RUNS.names).sort_by([("run", "descending")]).to_pylist()
    if not found:
        raise SourceNotFoundError(
            f"{warehouse}: no run is recorded here",
            hint="tiersnap run --source LOGDIR --remote URI --apply records one",
        )
    return found


def _for_people(row: dict[str, Any]) -> dict[str, object]:
    started = datetime.fromtimestamp(row["started_at"] / 1000, UTC)
    return {
        "started": started.isoformat(timespec="seconds"),
        "took": f"{(row['finished_at'] - row['started_at']) / 1000:.1f} s",
        "decoded": human_bytes(row["bytes_decoded"]),
        "tiered": human_bytes(row["bytes_tiered"]),
    }
