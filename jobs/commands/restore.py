"""`tiersnap restore`: a partition's folder, rebuilt from remote storage alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import source_cluster_options
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.old_options.remote import rate_option, s3_options
from tiersnap.jobs.old_options.restore import restore_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.restore import show_plans, show_restored, tell_plan, tell_target
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.known_partitions import read_published
from tiersnap.remote_storage.restore.carry_out import carry_out, check_space
from tiersnap.remote_storage.restore.request import RestoreRequest
from tiersnap.remote_storage.restore.target import open_target
from tiersnap.remote_storage.restore.topic import find_topic, plan_topic
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.paced_store import paced
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.lock import locked


@click.command()
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@click.option(
    "--to",
    "logdir",
    required=True,
    type=LocalPath(file_okay=False),
    help="An entry of the broker's log.dirs.",
)
@restore_options
@click.option("--segments", is_flag=True, help="A row a segment instead of a row a partition.")
@source_cluster_options
@s3_options
@rate_option("Fetch no more bytes a second")
@click.option("--apply", is_flag=True, help="Write into the log directory; the broker must be stopped.")
@params.output_option
@click.pass_obj
def restore(
    output: Output,
    remote: str,
    logdir: Path,
    asked: RestoreRequest,
    segments: bool,
    cluster: Cluster | None,
    s3: S3Settings,
    rate: int | None,
    apply: bool,
) -> int:
    """Rebuild partitions of a lost disk from their remote segments: logs, indexes, snapshots, epochs, checkpoints.

    Shows the plan; --apply carries it out. Every batch is checked, what the tier lacks is made from the log, and the
    folder gets its name only when all of it is on disk. Killed anywhere, it goes on where it was when run again. The
    restored log ends with the last tiered segment; the partition must be in no other log directory of the broker.
    """
    store = paced(open_store(remote, s3, writes=False), rate)
    with Progress(output, "planning"):
        found = find_topic(store, asked)
        target = open_target(logdir, found[0].cluster_id)
        tell_target(output, target, asked.topic, topic_is_checked=cluster is not None)
        wanted = [each.listed.partition for each in found]
        published = None
        if cluster is not None:
            published = read_published(cluster, wanted, unpublished=asked.unpublished)
        plans = plan_topic(store, target, found, asked, published)
    if not apply:
        show_plans(output, plans, segments=segments)
        return ExitCode.OK
    with locked(target.path), Progress(output, "restoring", len(plans)) as progress:
        check_space(target, plans)
        done = carry_out(store, target, progress.watch_done(plans), begin=partial(tell_plan, output), talk=output.talk)
    show_restored(output, done, segments=segments)
    return done.exit_code
