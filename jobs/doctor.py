"""`tiersnap doctor`: the state of a broker host on one screen, and what to type."""

from __future__ import annotations

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.doctor import show
from tiersnap.snapshot.host.host import Host
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of


@click.command()
@log_dirs_argument("LOGDIR")
@params.output_option
@click.pass_obj
def doctor(output: Output, log_dirs: tuple[str, ...]) -> int:
    """Say on one screen which broker this is, whether it runs, how full its disks are, what blocks, and what to type.

    LOGDIR are all entries of the broker's log.dirs, with blanks or commas between them, or as a glob. Only names and
    small files are read, so it takes seconds whatever the size of the disks; `scan` reads the segments. Exits 5 when
    something is damaged, 6 when something may not be read, 4 when segments wait, 0 otherwise.
    """
    opened = open_log_dirs(log_dirs)
    progress = Progress(output, "listing", count(opened, Selection()))
    host = Host.of(opened, progress.watch(selected_of(opened, Selection())))
    show(output, host)
    return host.exit_code
