"""`tiersnap mend`: objects that brokers look for and do not find, put back from where they were uploaded by mistake."""

from __future__ import annotations

import re
from functools import partial

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import client_options
from tiersnap.jobs.old_options.once import LAYOUTS, once
from tiersnap.jobs.old_options.place_proof import PlaceRequest, place_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.mend import show
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.mend import exit_code_of, plan_mending
from tiersnap.remote_storage.cluster.missing_objects import find_missing, read_by_brokers
from tiersnap.remote_storage.cluster.put_back import PutBack
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.open_store import open_existing_store
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import matches_topic


@click.command()
@client_options
@place_options
@once("--from", "wrong", required=True, metavar="URI", help="Where the objects were uploaded by mistake.")
@once("--from-layout", type=click.Choice(LAYOUTS), help="How they lie there.  [default: as in --remote]")
@params.topic_option
@click.option("--apply", is_flag=True, help="Put them back; without it the plan is shown.")
@params.output_option
@click.pass_obj
def mend(
    output: Output,
    cluster: Cluster,
    place: PlaceRequest,
    wrong: str,
    from_layout: str | None,
    topic: re.Pattern[str] | None,
    apply: bool,
) -> int:
    """Put back objects of remote segments that brokers know and do not find in --remote.

    For segments that were published at a wrong place: with a wrong --remote, prefix or --layout. Their objects come
    from --from, under the keys that brokers look for and under the same segment ids; in another layout they are built
    again. No record changes and nothing is overwritten. Brokers read them at once, without a restart.

    That brokers read --remote is proven as by tiersnap publish. What lies in --from stays there.
    """
    prover = place.prover(cluster, output.talk, apply=apply, writes=apply)
    target, layout = prover.store, prover.layout(place.layout)
    source, lies_as = open_existing_store(wrong, place.s3, writes=False), open_layout(from_layout or layout.name)
    if (source.uri, lies_as.name) == (target.uri, layout.name):
        raise UsageError(
            "--from is --remote, in the same layout", hint="name where the objects were uploaded by mistake"
        )
    with prover.metadata_topic.read_all() as reader, Progress(output, "mending"):
        ask = partial(read_by_brokers, cluster, reader, lambda name: matches_topic(name, topic))
        missing = find_missing(ask, reader.cache.ours, target, layout)
        proof = prover.prove(layout) if missing.segments else None
        done = plan_mending(source, missing.segments, lies_as, layout)
        if apply:
            done = list(PutBack(source, target, layout, reader.read_to_end).each(done))
    show(output, missing, done, proof, applied=apply)
    return exit_code_of(done)
