"""What a page says of the run of one host that made it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from tiersnap.jobs.command_line.kept_options import kept_options
from tiersnap.jobs.reporting.disks import disks_below
from tiersnap.snapshot import __version__
from tiersnap.snapshot.report.run_info import RunInfo


def host_run(
    run_id: str,
    started_at: int,
    log_dirs: Sequence[str],
    *,
    source: str = "",
    remote: str = "",
    applied: bool = False,
) -> RunInfo:
    """A run that ends now, of the command that is being carried out; nothing is counted yet.

    Args:
        started_at: epoch ms; where it lies in the future, the run ends when it began.
        log_dirs: those whose disks the page shows.
        source: the log directories as they were given.
        remote: as it was given; empty where nothing is to be tiered.
    """
    return RunInfo(
        run_id=run_id,
        started_at=started_at,
        finished_at=max(started_at, time.time_ns() // 1_000_000),
        source=source,
        remote=remote,
        warehouse="",
        version=__version__,
        applied=applied,
        disks=disks_below(log_dirs),
        options=kept_options(click.get_current_context()),
    )
