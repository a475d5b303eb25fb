"""`tiersnap publish`: what was tiered, told to the brokers."""

from __future__ import annotations

import re
from functools import partial

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.cluster import cluster_options
from tiersnap.jobs.options.place_proof import PlaceRequest, place_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.publish import show
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.publish import Publish
from tiersnap.remote_storage.inventory.finished import finished_segments
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.log.selection import matches_topic


@click.command()
@cluster_options
@place_options
@params.topic_option
@click.option(
    "--log-dir",
    "log_dirs",
    multiple=True,
    help="The leader's log directory: for leader epochs if leaders cannot be asked (SASL), and for the settings of the "
    "broker that runs on it if brokers may not be described.",
)
@click.option("--apply", is_flag=True, help="Publish; without it the plan is shown.")
@params.output_option
@click.pass_obj
def publish(
    output: Output,
    cluster: Cluster,
    broker_id: int | None,
    place: PlaceRequest,
    topic: re.Pattern[str] | None,
    log_dirs: tuple[str, ...],
    apply: bool,
) -> int:
    """Tell a cluster's brokers of the segments that are in remote storage.

    Writes COPY_SEGMENT_STARTED and COPY_SEGMENT_FINISHED to __remote_log_metadata for each complete copy in --remote
    that is not there. Run again, it publishes nothing twice; killed anywhere, the next run completes what is there.

    A partition is refused as a whole if the cluster has another topic by its name, if it is not tiered, if offsets
    before a segment are not in remote storage, if its leader epochs are not in the lineage, or expire's record damaged.
    If copies that brokers know have lost objects, a complete copy takes their place, unless none of theirs is complete.
    What stays unreadable is named (exit code 5), and a segment that would hide what brokers read is held back.

    Readers see what is published at once, a copier that is running does not, and would copy it again. So copying must
    be off (remote.log.copy.disable), and retention endless as long as it is: of each topic this is asked again right
    before its records are written, and behind them. A stuck copier is freed by tiersnap unblock.

    Before the first record one of these proves that brokers read --remote: the newest segment that brokers uploaded
    themselves is there; a broker that runs on this host was started with that place; or, with --probe-topic, its broker
    tiers a new topic there. Otherwise, and if one of them contradicts, nothing is published and the exit code is 4.
    """
    prover = place.prover(cluster, output.talk, log_dirs=log_dirs, apply=apply)
    store, metadata_topic, layout = prover.store, prover.metadata_topic, prover.layout(place.layout)
    finished = finished_segments(store, layout, lambda name: matches_topic(name, topic))
    if not finished.segments and not finished.damaged:
        raise SourceNotFoundError(
            f"{place.remote}: no finished remote segment of the layout {layout.name}, or none that --topic selects",
            hint="tiersnap tier LOGDIR --remote URI --apply makes them; --layout says how they lie there",
        )
    job = Publish(cluster, metadata_topic, store, layout, partial(prover.prove, layout), log_dirs, broker_id)
    published = job.run(finished, apply=apply)
    show(output, published, metadata_topic, segments=len(finished.segments), applied=apply)
    return published.exit_code
