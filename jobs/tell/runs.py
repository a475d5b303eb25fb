"""What `runs` shows: a row a run, or all of one run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.shown import in_words
from tiersnap.snapshot.units import human_bytes

_COLUMNS = ("run_id", "started", "took", "decoded", "snapshots_written", "segments_tiered", "tiered", "errors")


def show_list(output: Output, runs: Sequence[dict[str, Any]]) -> None:
    """Rows of the table `runs`, without their settings."""
    rows = [_without_settings(run) for run in runs]
    if output.format is Format.TABLE:
        rows = [row | _for_people(row) for row in rows]
    output.row_dicts("runs list", rows, columns=_COLUMNS)


def show_one(output: Output, run: dict[str, Any]) -> None:
    """A row of the table `runs`, its settings taken apart."""
    if output.format is not Format.TABLE:
        output.document(run)
        return
    for name, value in {**_without_settings(run), **_for_people(run)}.items():
        click.echo(f"{name.replace('_', ' '):<20}{in_words(value)}")
    for name, value in run["settings"].items():
        click.echo(f"  {name:<20}{json.dumps(value)}")


def _without_settings(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "settings"}


def _for_people(row: dict[str, Any]) -> dict[str, object]:
    started = datetime.fromtimestamp(row["started_at"] / 1000, UTC)
    return {
        "started": started.isoformat(timespec="seconds"),
        "took": f"{(row['finished_at'] - row['started_at']) / 1000:.1f} s",
        "decoded": human_bytes(row["bytes_decoded"]),
        "tiered": human_bytes(row["bytes_tiered"]),
    }
