"""`tiersnap repair`: the missing snapshots of one host, without Spark or Java."""

from __future__ import annotations

from contextlib import nullcontext

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.remote_view import OF_BEGINNINGS, RemoteView, remote_view_options
from tiersnap.jobs.old_options.repair import RepairRequest, repair_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.repair import show
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.disk_findings import refuse_twice, twice
from tiersnap.snapshot.log.selection import count, open_log_dirs, selected_of
from tiersnap.snapshot.repair.log_dirs import HostRepair, all_locked


@click.command()
@log_dirs_argument("LOGDIR")
@repair_options
@remote_view_options(OF_BEGINNINGS, click.option)
@params.output_option
@click.pass_obj
def repair(output: Output, log_dirs: tuple[str, ...], asked: RepairRequest, view: RemoteView) -> int:
    """Rebuild the producer snapshots that LOGDIR lacks, by replaying its segments as a broker does.

    LOGDIR is an entry of log.dirs; several may be given, with blanks or commas between them, or as a glob: all disks
    of the broker in one call. Shows the plan. --apply writes it into LOGDIR, --out DIR writes it to
    DIR/<topic>-<partition>/ and leaves LOGDIR alone. Where a log begins in remote storage, --remote brings the
    state that its first file begins with; without it nothing of that log is judged or made. Running it again does
    nothing twice; killed anywhere, it leaves whole files only.
    """
    opened, selection = open_log_dirs(log_dirs), asked.selection
    if asked.out is None:
        refuse_twice(opened)
    elif both := next(twice(opened, selection), None):
        raise UsageError(f"{both[0]} is in two of the log directories: --out has one place for it", hint="repair each")
    beginnings = view.beginnings(asked.now, asked.producer_expiration)
    progress = Progress(output, "repairing" if asked.writes else "planning", count(opened, selection))
    with all_locked(opened) if asked.apply else nullcontext():
        job = HostRepair(opened, asked.options, asked.check_crc, beginnings)
        plans = job.plans(progress.watch(selected_of(opened, selection)), asked.open_files)
        show(output, job, plans, wrote=asked.writes, in_place=asked.apply)
    return job.exit_code
