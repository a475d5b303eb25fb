"""`tiersnap collect`: the decodes of one host's log directory, shipped to where a fleet's run reads them."""

from __future__ import annotations

import re

import click

from tiersnap.jobs.command_line.output import Output
from tiersnap.jobs.command_line.progress import Progress
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.remote import s3_options
from tiersnap.jobs.tell.collect import show
from tiersnap.remote_storage.collect.collect import Collection
from tiersnap.remote_storage.collect.folder import CollectedFolder
from tiersnap.remote_storage.collect.totals import CollectTotals
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.stores.conditions import check_conditions
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.places import place_of
from tiersnap.snapshot.log.selection import selected_folders
from tiersnap.snapshot.tasks.sources import read_properties


@click.command()
@click.argument("source", metavar="LOGDIR", envvar="TIERSNAP_SOURCE")
@click.option("--to", required=True, help="Folder of shared storage, one for each log directory: s3://… or a path.")
@click.option("--headers", is_flag=True, help="Ship the headers of all batches, too: for analysis.")
@params.topic_option
@params.now_option
@s3_options
@click.option("--apply", is_flag=True, help="Decode and ship; without it the plan is shown.")
@params.output_option
@click.pass_obj
def collect(
    output: Output,
    source: str,
    to: str,
    headers: bool,
    topic: re.Pattern[str] | None,
    now: int,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Decode LOGDIR on its own host and ship what a fleet's run needs of it, as Parquet; no Java, no Spark.

    LOGDIR is one entry of a broker's log.dirs. `tiersnap run --source TO` takes what was shipped as it takes a log
    directory; the upload needs the segments and stays with this host. Run it again whenever you like: only what is new
    or has changed is read, with the CRC of every batch, and what is gone is no longer listed. Reading is safe while the
    broker runs.
    """
    store, log_dir = open_store(to, s3, writes=apply), open_log_dir(source)
    if apply:
        check_conditions(store, ObjectKeys())
    properties = read_properties(log_dir.filesystem, log_dir.path)
    collection = Collection(CollectedFolder(store), place_of(source), log_dir, properties, headers, now, apply)
    folders, totals = selected_folders(log_dir, source, topic), CollectTotals()
    collected = Progress(output, "collecting", len(folders)).watch_done(collection.partitions(folders))
    show(output, collected, totals, findings=log_dir.findings, applied=apply)
    return totals.exit_code
