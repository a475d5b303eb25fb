"""`tiersnap expire`: remote segments past their retention, of partitions that no broker manages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import managing_cluster_options
from tiersnap.jobs.old_options.expire import Asked, expire_options
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.expire import show
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.known_partitions import ClusterRecords
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.retire.expire_find import find_expired
from tiersnap.remote_storage.retire.expire_outcome import Outcome, carry_out, exit_code_of
from tiersnap.remote_storage.retire.expire_plan import ExpirePlan
from tiersnap.remote_storage.retire.store_leftovers import SweptStore, sweep_store
from tiersnap.remote_storage.stores.open_store import open_existing_store
from tiersnap.remote_storage.stores.probe_conditions import check_conditions
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.selection import matches_topic


@click.command()
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@s3_options
@expire_options
@managing_cluster_options
@click.option("--apply", is_flag=True, help="Delete; without it the plan is shown.")
@params.output_option
@click.pass_obj
def expire(output: Output, remote: str, s3: S3Settings, asked: Asked, cluster: Cluster | None, apply: bool) -> ExitCode:
    """Delete remote segments past their retention, oldest first, of topics that no broker manages any more.

    Brokers delete what they manage by themselves; such partitions are named and left to them. Others go by time, size
    and log start as a broker would have it: a beginning of the log, up to the first segment that stays. Whether a
    broker manages them the cluster is asked (--bootstrap-server); where there is none left to ask, say --unmanaged.

    What goes is recorded first. Killed anywhere, the same command ends it. What an object lock holds is LOCKED, and
    what is behind waits. What ended attempts of tiersnap left goes, too. docs/expire.md says more.
    """
    store = open_existing_store(remote, s3, writes=apply)
    keys, retention = ObjectKeys(), asked.retention(store.now())
    known = None if cluster is None else ClusterRecords(cluster)
    found: Iterable[ExpirePlan] = find_expired(store, asked.wants, retention, cluster=known, unmanaged=asked.unmanaged)
    if asked.log_start_offset is not None:
        found = list(found)
        asked.check_log_start(found)
    # Once, and only where something goes: the probe writes.
    check = cache(partial(check_conditions, store))
    done = []
    for plan in Progress(output, "expiring").watch_done(found):
        if apply and plan.going:
            check()
        done.append(carry_out(store, keys, plan) if apply else Outcome(plan))
    swept = sweep_store(store, keys, lambda topic: matches_topic(topic, asked.topic)) if apply else SweptStore()
    show(output, done, swept, applied=apply)
    return exit_code_of(done)
