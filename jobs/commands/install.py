"""`tiersnap install`: the snapshots that a run stored, back to a broker host."""

from __future__ import annotations

import re
from contextlib import nullcontext

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.install import show
from tiersnap.remote_storage.restore.install import Installation
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, count
from tiersnap.snapshot.repair.plan import PlanOptions
from tiersnap.snapshot.replay.expiry import Expiry


@click.command()
@click.option("--remote", required=True, help="Where a run stored them: s3://bucket/prefix, or a directory.")
@click.option("--to", "logdir", required=True, help="An entry of the broker's log.dirs.")
@params.topic_option
@click.option("--replace", is_flag=True, help="Also replace files that are CORRUPT or SUSPECT.")
@click.option("--above-newest", is_flag=True, help="Also write above the newest snapshot that the broker can load.")
@click.option(
    "--compare/--no-compare", default=True, show_default=True, help="Compare each with the log, by folding it."
)
@params.crc_option
@params.producer_expiration_option
@params.now_option
@s3_options
@click.option("--apply", is_flag=True, help="Write into the log directory; the broker must be stopped.")
@params.output_option
@click.pass_obj
def install(
    output: Output,
    remote: str,
    logdir: str,
    topic: re.Pattern[str] | None,
    replace: bool,
    above_newest: bool,
    compare: bool,
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Bring the producer snapshots that `tiersnap run` stored to the broker host that lacks them.

    Shows the plan; --apply writes it. The rules are those of `repair`, and a stored snapshot must be the one that the
    run's manifest names, of the same topic id, and say what the log says. Run again, it does nothing twice; killed
    anywhere, it leaves whole files only.
    """
    store = open_store(remote, s3, writes=False)
    log_dir = open_log_dir(logdir)
    options = PlanOptions(Expiry(None, now), producer_expiration, replace=replace, above_newest=above_newest)
    total = count([NamedLogDir(logdir, log_dir)], Selection(topic))
    watch = Progress(output, "installing" if apply else "planning", total).watch_one
    job = Installation(store, log_dir, logdir, topic, options, compares=compare, check_crc=check_crc, watch=watch)
    with locked(job.path) if apply else nullcontext():
        show(output, job, wrote=apply)
    return job.exit_code
