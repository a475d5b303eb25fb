"""`tiersnap doctor`: the state of a broker host on one screen, and what to type."""

from __future__ import annotations

from dataclasses import replace

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import record_options
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.place_proof import compare_records
from tiersnap.jobs.old_options.remote_view import RemoteView, remote_view_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.doctor import show
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.stores.open_store import open_existing_store
from tiersnap.remote_storage.stores.probe import exit_code_of, probe_store
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.host.summary import Host
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of


@click.command()
@log_dirs_argument("LOGDIR", required=False)
@remote_view_options("Ask remote storage as well, or alone: s3://bucket/prefix, or a directory.")
@record_options
@params.output_option
@click.pass_obj
def doctor(output: Output, log_dirs: tuple[str, ...], view: RemoteView, cluster: Cluster | None) -> int:
    """Say on one screen which broker this is, whether it runs, how full its disks are, what blocks, and what to type.

    LOGDIR are all entries of the broker's log.dirs, with blanks or commas between them, or as a glob. Only names and
    small files are read, so it takes seconds whatever the size of the disks; `scan` reads the segments. Exits 5 when
    something is damaged, 6 when something may not be read, 4 when segments wait, 0 otherwise.

    --remote asks a store for what tiersnap relies on: conditional writes, checksums, Object Lock, lifecycle rules, its
    clock. It writes under claims/probe- alone and removes that. Exits 2 when the store is not to be trusted as it is.
    What of LOGDIR is tiered there waits for nothing.

    --remote with --bootstrap-server names segments that brokers know and whose objects are not there, and the command
    that puts them back. Exits 5 when there are some.
    """
    if not log_dirs and view.remote is None:
        raise UsageError("nothing to look at", hint="name the entries of log.dirs, or --remote s3://bucket/prefix")
    answers = [] if view.remote is None else list(probe_store(open_existing_store(view.remote, view.s3)))
    compared = compare_records(cluster, view, output.talk)
    view = view if compared is None else replace(view, layout=compared.layout)
    host = _look(output, log_dirs, view) if log_dirs else Host(())
    show(output, host, answers, compared)
    found = ExitCode.DATA_CORRUPT if compared is not None and compared.missing.segments else ExitCode.OK
    return found or host.exit_code or exit_code_of(answers)


def _look(output: Output, log_dirs: tuple[str, ...], view: RemoteView) -> Host:
    opened, inventory = open_log_dirs(log_dirs), view.inventory(params.clock(None), None)
    progress = Progress(output, "listing", count(opened, Selection()))
    partitions = progress.watch(selected_of(opened, Selection()))
    if inventory is None:
        return Host.of(opened, partitions)
    found = Host.of(opened, partitions, inventory.coverage)
    return replace(found, remote=view.remote or "", errors=tuple(inventory.errors))
