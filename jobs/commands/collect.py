"""`tiersnap collect`: the decodes of one host's log directory, shipped to where a fleet's run reads them."""

from __future__ import annotations

import re

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.collect import show
from tiersnap.remote_storage.collect.disks import DiskCollection, folders_below, refuse_folder_of_one
from tiersnap.remote_storage.collect.totals import CollectTotals
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.probe_conditions import check_conditions
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.log.disk_findings import findings_of, refuse_twice
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_folders


@click.command()
@log_dirs_argument("LOGDIR")
@click.option(
    "--to",
    required=True,
    help="Folder of shared storage: s3://… or a path; of several log directories each goes to a folder below it.",
)
@click.option("--headers", is_flag=True, help="Ship the headers of all batches, too: for analysis.")
@params.topic_option
@params.now_option
@s3_options
@click.option("--apply", is_flag=True, help="Decode and ship; without it the plan is shown.")
@params.output_option
@click.pass_obj
def collect(
    output: Output,
    log_dirs: tuple[str, ...],
    to: str,
    headers: bool,
    topic: re.Pattern[str] | None,
    now: int,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Decode LOGDIR on its own host and ship what a fleet's run needs of it, as Parquet; no Java, no Spark.

    LOGDIR are all entries of a broker's log.dirs. `tiersnap run --source TO` takes what was shipped as it takes a log
    directory; the upload needs the segments and stays with this host. Run it again whenever you like: only what is new
    or has changed is read, with the CRC of every batch, and what is gone is no longer listed. Reading is safe while the
    broker runs.
    """
    opened, selection = open_log_dirs(log_dirs), Selection(topic)
    refuse_twice(opened)
    if len(opened) > 1:
        refuse_folder_of_one(open_store(to, s3, writes=False))
    places = folders_below(to, opened)
    stores = [open_store(place, s3, writes=apply) for place in places]
    if apply:
        check_conditions(stores[0])
    selected, totals = selected_folders(opened, selection), CollectTotals(findings=[*findings_of(opened)])
    disks = [DiskCollection(*each) for each in zip(opened, stores, selected, strict=True)]
    collected = (done for disk in disks for done in disk.run(with_batches=headers, now=now, apply=apply))
    progress = Progress(output, "collecting", count(opened, selection))
    show(output, progress.watch_done(collected), totals, log_dirs=opened, places=places, applied=apply)
    return totals.exit_code
