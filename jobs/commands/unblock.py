"""`tiersnap unblock`: partitions whose copier is stuck, freed while their broker runs."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import cluster_options
from tiersnap.jobs.old_options.host import HostRequest, host_options
from tiersnap.jobs.old_options.place_proof import ProofRequest, brokers_layout_option, proof_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.unblock import show
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.unblock import Unblock
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.places import places_of


@click.command()
@cluster_options
@click.option("--source", "sources", multiple=True, required=True, help="An entry of a broker's log.dirs.")
@host_options(brokers_layout_option)
@proof_options
@params.output_option
@click.pass_obj
def unblock(
    output: Output,
    sources: tuple[str, ...],
    request: HostRequest,
    proof: ProofRequest,
    cluster: Cluster,
    broker_id: int | None,
) -> int:
    """Free partitions whose tiering is stuck, without a restart.

    Looks in --source for partitions whose copier begins the same segment again and again, for want of a producer
    snapshot. Their segments are tiered with computed snapshots; then remote.log.copy.disable is set true, they are
    published, and it is set false again, so that the copier looks anew and goes on behind them. No file in the log
    directory is touched.

    Before anything is tiered one of these proves that brokers read --remote: the newest segment that brokers uploaded
    themselves is there; a broker that runs on this host was started with that place; or, with --probe-topic, its broker
    tiers a new topic there. Otherwise, and if one of them contradicts, nothing is done and the exit code is 4.

    While copying is off, about three seconds, the topic's retention is endless and no local one is shorter, since the
    broker would delete remote segments too. What was set before is recorded in remote storage first: killed at any
    point, the same command puts it back and finishes, but for what somebody else has set meanwhile. Where a broker
    refuses what was set, copying is switched on alone, and the rest is said as a line of kafka-configs, with exit
    code 4. Runs at the same topic wait for each other; copying that somebody else has switched off stays off.

    Where the cluster refuses those settings (ZooKeeper mode, Kafka before 3.9) segments are tiered and published, and a
    restart of the leader is what makes its copier look.
    """
    prover = proof.prover(cluster, request.store, sources, output.talk, apply=request.apply)
    layout = prover.layout(request.layout)
    log_dirs = {place: open_log_dir(place) for place in places_of(sources)}
    with Progress(output, "unblocking") as progress:
        host, talk, watch = request.host_in(layout), output.talk, progress.watch_done
        job = Unblock(prover, host, log_dirs, request.topic, broker_id, talk=talk, watch=watch)
        done = job.run()
    show(output, done, tuple(log_dirs), request)
    return done.exit_code(apply=request.apply)
