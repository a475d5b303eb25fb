"""`tiersnap maintain remove-orphans`: what tiersnap left in remote storage and no cluster knows of."""

from __future__ import annotations

import re

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import client_options
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.jobs.tell.remove_orphans import show
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.known_partitions import ClusterRecords
from tiersnap.remote_storage.retire.orphans import OrphanKind
from tiersnap.remote_storage.retire.orphans_find import find_orphans
from tiersnap.remote_storage.retire.orphans_outcome import OrphansOutcome
from tiersnap.remote_storage.retire.orphans_remove import remove
from tiersnap.remote_storage.stored.claims import STALE_AFTER_MS
from tiersnap.remote_storage.stores.open_store import open_existing_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.units import format_duration


@click.command("remove-orphans")
@client_options
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@s3_options
@params.topic_option
@click.option(
    "--older-than",
    type=params.Duration(),
    default="1d",
    show_default=True,
    help="Leave alone what is younger, by the clock of remote storage.",
)
@metrics_options
@click.option("--apply", is_flag=True, help="Remove; without it the plan is shown.")
@params.output_option
@click.pass_obj
def remove_orphans(
    output: Output,
    cluster: Cluster,
    remote: str,
    s3: S3Settings,
    topic: re.Pattern[str] | None,
    older_than: int | None,
    sinks: Sinks,
    apply: bool,
) -> int:
    """Remove copies, snapshots and unfinished uploads of tiersnap that the cluster knows nothing of.

    Only what tiersnap announced is removed: a claim names the attempt, or a manifest the snapshot. And only of
    partitions whose cluster.json names this cluster, which has no record of it in __remote_log_metadata, or one that
    it was deleted. What is published, what may still be published, and what is not ours is left alone. What is too
    young is counted, with the time from which it may go.
    """
    if older_than is None or older_than < STALE_AFTER_MS:
        raise UsageError(
            f"--older-than {format_duration(older_than)}: an attempt that is at work may be older than that",
            hint=f"give at least {format_duration(STALE_AFTER_MS)}",
        )
    store = open_existing_store(remote, s3, writes=apply)
    found = list(
        find_orphans(store, ClusterRecords(cluster), lambda name: matches_topic(name, topic), older_than=older_than)
    )
    outcome = OrphansOutcome(found, list(remove(store, found)) if apply else [])
    show(output, outcome, older_than=older_than, applied=apply)
    if sinks.is_any:
        from tiersnap.snapshot.metrics.of_run import of_orphans

        left = [(str(each.kind), each.size) for each in outcome.left]
        sinks.send(lambda: of_orphans([str(kind) for kind in OrphanKind], left))
    return outcome.exit_code
