"""`tiersnap repair`: the missing snapshots of one host, without Spark or Java."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import click

from tiersnap.jobs.command_line.output import Output
from tiersnap.jobs.command_line.progress import Progress
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument
from tiersnap.jobs.options.remote import layout_option, s3_options
from tiersnap.jobs.options.repair import RepairRequest, repair_options
from tiersnap.jobs.tell.repair import show
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.presence.observe import Observe
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import count, open_log_dirs, refuse_twice, selected_of, twice
from tiersnap.snapshot.repair.host import FindBeginning, HostRepair, all_locked
from tiersnap.snapshot.tasks.remote_start import beginning, believing


@click.command()
@log_dirs_argument("LOGDIR")
@repair_options
@click.option("--from", "remote", help="Remote storage, for what came before the files of a log that begins there.")
@layout_option
@s3_options
@params.output_option
@click.pass_obj
def repair(
    output: Output, log_dirs: tuple[str, ...], asked: RepairRequest, remote: str | None, layout: Layout, s3: S3Settings
) -> int:
    """Rebuild the producer snapshots that LOGDIR lacks, by replaying its segments as a broker does.

    LOGDIR is an entry of log.dirs; several may be given, with blanks or commas between them, or as a glob: all disks
    of the broker in one call. Shows the plan. --apply writes it into LOGDIR, --out DIR writes it to
    DIR/<topic>-<partition>/ and leaves LOGDIR alone. Where a log begins in remote storage, --from brings the state
    that its first file begins with. Running it again does nothing twice; killed anywhere, it leaves whole files only.
    """
    opened, selection = open_log_dirs(log_dirs), asked.selection
    if asked.out is not None and (name := twice(opened, selection)):
        raise UsageError(f"{name} is in two of the log directories: --out has one place for it", hint="repair each")
    if asked.out is None:
        refuse_twice(opened)
    find_beginning: FindBeginning | None = None
    if remote is not None:
        store = open_store(remote, s3, writes=False)
        # One that is not there or refuses is better known before the work than in its middle.
        next(iter(store.list()), None)
        believes = believing(asked.now, asked.producer_expiration)
        find_beginning = partial(beginning, Observe(store, layout), believes)
    progress = Progress(output, "repairing" if asked.writes else "planning", count(opened, selection))
    with all_locked(opened) if asked.apply else nullcontext():
        job = HostRepair(opened, asked.options, asked.check_crc, find_beginning)
        plans = job.plans(progress.watch(selected_of(opened, selection)), asked.open_files)
        show(output, job, plans, wrote=asked.writes, in_place=asked.apply)
    return job.exit_code
