"""The readiness page of a run, and what its metrics say: for folders and servers, not for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiersnap.jobs.telemetry.metrics import Sinks
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.metrics.of_run import of_run
from tiersnap.snapshot.report import Report, write_report


def leave(
    made: Report,
    code: ExitCode,
    folder: Path | None,
    sinks: Sinks,
    *,
    errors: int,
    seconds: Mapping[str, float] | None = None,
) -> None:
    """Write the page, and send the metrics where they are wanted.

    Args:
        code: with which the run ends.
        folder: of the page; None for no page.
        errors: number of them.
        seconds: by stage; None where the run has none.
    """
    if folder is not None:
        write_report(made, folder)
    sinks.send(lambda: of_run(made, code, errors=errors, seconds=seconds, by_partition=sinks.by_partition))
