"""The report page and the metrics of a command on one host."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from tiersnap.jobs.cli.next_command import kept_options
from tiersnap.jobs.cli.option_types import clock
from tiersnap.jobs.telemetry.metrics import Sinks
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.disk import disk_of
from tiersnap.snapshot.log.places import located, place_of
from tiersnap.snapshot.metrics.of_run import of_run
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_info import Disk, RunInfo


def host_run(
    run_id: str,
    log_dirs: Sequence[str],
    *,
    now: int,
    source: str = "",
    remote: str = "",
    applied: bool = False,
) -> RunInfo:
    """Return the RunInfo of the current command. Its end is the current time, and its counts are 0.

    Args:
        run_id: id of the run.
        log_dirs: URIs of the log directories, normalized by `located`.
        now: time of the verdicts (--now), in ms since the epoch.
        source: the log directories as the user wrote them.
        remote: URI of the remote location; empty if the command uploads nothing.
        applied: whether the command has --apply.
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


def write_report_and_metrics(
    made: Report,
    code: ExitCode,
    folder: Path | None,
    sinks: Sinks,
    *,
    errors: int,
    seconds: Mapping[str, float] | None = None,
) -> None:
    """Write the report page and send the metrics.

    Args:
        made: the report.
        code: exit code of the command.
        folder: folder of the page; None for no page.
        sinks: the sinks of metrics.
        errors: number of errors.
        seconds: duration by name of the stage; None if the command has no stages.
    """
    if folder is not None:
        from tiersnap.snapshot.report.write import write_report

        write_report(made, folder)
    sinks.send(lambda: of_run(made, code, errors=errors, seconds=seconds, by_partition=sinks.by_partition))


def disks_below(log_dirs: Iterable[str]) -> tuple[Disk, ...]:
    """Return each file system that has log directories, once. Directories that are not on this host are skipped."""
    found = {}
    on_disk: defaultdict[str, list[str]] = defaultdict(list)
    for log_dir in sorted(set(log_dirs)):
        place = place_of(log_dir)
        try:
            if "://" in place or not Path(place).is_dir():
                continue
            disk = disk_of(Path(place))
        except OSError:
            continue
        found[disk.mount] = disk
        on_disk[disk.mount].append(log_dir)
    return tuple(Disk(each.mount, each.total, each.free, tuple(on_disk[mount])) for mount, each in found.items())
