"""`tiersnap report runs` and `report run`: what a warehouse remembers of its runs, without a JVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import click

from tiersnap.jobs.command import command
from tiersnap.jobs.escaped_text import in_words
from tiersnap.jobs.options import warehouse_option
from tiersnap.jobs.output import Format, Output, of_row
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.units import human_bytes


@dataclass(frozen=True)
class ListedRun:
    """A run of `report runs`; times are ms, bytes those of segment files."""

    COLUMNS: ClassVar = (
        *("run_id", "started", "took", "decoded", "snapshots_written", "segments_tiered", "tiered", "errors"),
    )
    run: int
    run_id: str
    tool: str
    started_at: int
    finished_at: int
    segments_decoded: int
    bytes_decoded: int
    partitions_replayed: int
    snapshots_written: int
    segments_tiered: int
    bytes_tiered: int
    errors: int

    @property
    def started(self) -> str:
        """When, for people; as those below."""
        return datetime.fromtimestamp(self.started_at / 1000, UTC).isoformat(timespec="seconds")

    @property
    def took(self) -> str:
        """Return the duration."""
        return f"{(self.finished_at - self.started_at) / 1000:.1f} s"

    @property
    def decoded(self) -> str:
        """Return the bytes read."""
        return human_bytes(self.bytes_decoded)

    @property
    def tiered(self) -> str:
        """Return the bytes uploaded."""
        return human_bytes(self.bytes_tiered)


@dataclass(frozen=True)
class ShownRun(ListedRun):
    """A run of `report run`, with the settings that it was given."""

    settings: dict[str, Any]


@command(ListedRun, name="runs")
@warehouse_option
def report_runs(output: Output, warehouse: str) -> int:
    """List the runs of a warehouse that changed something, the newest first.

    tiersnap report runs --warehouse s3://lake/tiersnap
    """
    runs = ({name: value for name, value in run.items() if name != "settings"} for run in _recorded(warehouse))
    output.rows(ListedRun, (of_row(ListedRun, run) for run in runs))
    return ExitCode.OK


@command(name="run", result=ShownRun)
@click.argument("run_id", metavar="RUN_ID")
@warehouse_option
def report_run(output: Output, run_id: str, warehouse: str) -> int:
    """Show what one run was asked to do and what it did; `last` is the newest.

    tiersnap report run last --warehouse s3://lake/tiersnap
    """
    found = next((each for each in _recorded(warehouse) if run_id in ("last", each["run_id"])), None)
    if found is None:
        raise UsageError(f"{warehouse}: no run {run_id!r}", hint="tiersnap report runs shows them")
    run = of_row(ShownRun, found)
    if output.format is not Format.TABLE:
        output.document(run)
        return ExitCode.OK
    names = [name for name in found if name != "settings"]
    for name in (*names, "started", "took", "decoded", "tiered"):
        click.echo(f"{name.replace('_', ' '):<20}{in_words(getattr(run, name))}")
    for name, value in run.settings.items():
        click.echo(f"  {name:<20}{json.dumps(value)}")
    return ExitCode.OK


def _recorded(warehouse: str) -> list[dict[str, Any]]:
    """Return the runs of a warehouse, the newest first.

    Raises:
        SourceNotFoundError: there are none.
    """
    from tiersnap.jobs import delta_tables as tables

    found = tables.runs(warehouse)
    if not found:
        raise tables.no_rows(warehouse, "no run is recorded here; the next one records those that were killed")
    return found
