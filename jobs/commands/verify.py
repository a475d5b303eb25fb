"""`tiersnap verify`: are the snapshots that are there right?"""

from __future__ import annotations

from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument, selection_options
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.options.remote_view import OF_BEGINNINGS, RemoteView, remote_view_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.verify import show
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of
from tiersnap.snapshot.readiness.verify import Verification


@click.command()
@log_dirs_argument("LOGDIR")
@click.option(
    "--against",
    type=LocalPath(file_okay=False),
    help="Judge the files DIR/<topic>-<partition>/<20 digits>.snapshot instead of those beside the log.",
)
@selection_options
@params.crc_option
@params.producer_expiration_option
@params.now_option
@remote_view_options(OF_BEGINNINGS, click.option)
@click.option("--strict", is_flag=True, help="Count every entry, also those that a broker would drop on loading.")
@params.output_option
@click.pass_obj
def verify(
    output: Output,
    log_dirs: tuple[str, ...],
    against: Path | None,
    selection: Selection,
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    view: RemoteView,
    strict: bool,
) -> int:
    """Compare every producer snapshot with the log, producer by producer.

    LOGDIR is an entry of log.dirs; several may be given, with blanks or commas between them, or as a glob.

    A file MATCHES, EXTENDS (knows producers from before the log start), is SUSPECT (contradicts the log in what a
    broker that loads it now would keep), CORRUPT (no broker can read it) or UNVERIFIED (not compared: the log is
    damaged below it, or it may not be read). Where a log begins in remote storage its files are NOT_COMPARED, unless
    --remote says where that is. Exits 5 when one is CORRUPT or no broker can open it, 4 when one is SUSPECT or
    UNVERIFIED, or --remote does not tell how a log begins, 6 when something of the log may not be read. `scan` says
    what is missing. With --strict every difference is SUSPECT. With --against every file there must equal the log's
    fold exactly.
    """
    opened = open_log_dirs(log_dirs)
    at = None if strict or against is not None else (now, producer_expiration)
    verification = Verification(opened, against, at, check_crc, view.beginnings(now, producer_expiration))
    progress = Progress(output, "verifying", count(opened, selection))
    show(output, verification, verification.snapshots(progress.watch(selected_of(opened, selection))))
    return verification.exit_code
