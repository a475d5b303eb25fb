"""What a page says of the run of one host that made it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from tiersnap.jobs.again import kept_options
from tiersnap.jobs.old_options.common import clock
from tiersnap.jobs.reporting.disks import disks_below
from tiersnap.snapshot import __version__
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.report.run_info import RunInfo


def host_run(
    run_id: str,
    log_dirs: Sequence[str],
    *,
    now: int,
    source: str = "",
    remote: str = "",
    applied: bool = False,
) -> RunInfo:
    """Return the run of this command, which ends now; nothing is counted yet.

    Args:
        log_dirs: one spelling of each (see `located`), for commands; their disks are shown.
        now: epoch ms at which the verdicts hold, as --now gave it.
        source: the log directories as they were given.
        remote: a place that a store was opened at; empty where nothing is to be tiered.
    """
    context = click.get_current_context()
    started_at = clock(context)
    return RunInfo(
        run_id=run_id,
        started_at=started_at,
        finished_at=time.time_ns() // 1_000_000,
        judged_at=None if now == started_at else now,
        source=source,
        sources=tuple(log_dirs),
        remote=located(remote) if remote else "",
        warehouse="",
        version=__version__,
        applied=applied,
        disks=disks_below(log_dirs),
        options=kept_options(context),
    )
