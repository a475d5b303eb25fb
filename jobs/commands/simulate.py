"""`tiersnap simulate`: what producers would meet if a replica with a given snapshot became leader now."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.place import warehouse_of, warehouse_option
from tiersnap.jobs.old_options.remote_view import OF_BEGINNINGS, RemoteView, remote_view_options
from tiersnap.jobs.old_options.simulate import SimulateRequest, simulate_options
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.simulate import show_fleet, show_host
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.disk_findings import findings_of
from tiersnap.snapshot.log.findings import exit_code_of
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of


@click.command()
@log_dirs_argument("[LOGDIR]", required=False)
@warehouse_option
@simulate_options
@remote_view_options(OF_BEGINNINGS, click.option)
@spark_options
@params.output_option
@click.pass_context
def simulate(
    ctx: click.Context,
    log_dirs: tuple[str, ...],
    warehouse: str | None,
    asked: SimulateRequest,
    view: RemoteView,
    spark: SparkRequest,
) -> int:
    """Say what every producer of LOGDIR would meet if a replica with another snapshot became leader now.

    The replica has the snapshot that --from names and replayed the log from there. Each producer sends its next batch,
    its last ones again, one after a gap, as a fenced instance, and from sequence 0; a row says what the leader answers
    that never stopped, what the replica answers, and what the client makes of it, by release. Only answers that differ
    are listed, unless --all is given. Nothing is written. Of a log that begins in remote storage nothing is said,
    unless --remote says where that is.

    With --warehouse the answers are counted over all partitions that a run has read, on Spark; each replica begins at
    its newest segment's base offset.
    """
    output: Output = ctx.obj
    uri = warehouse_of(ctx, "log_dirs", log_dirs, warehouse)
    if uri is not None:
        task = asked.of_warehouse()
        from tiersnap.jobs.pipeline.simulate import simulate_warehouse

        found = simulate_warehouse(spark.session, uri, Selection(asked.topic), task, everything=asked.everything)
        show_fleet(output, found.rows, found.tally.sentence(), found.said)
        return ExitCode.OK
    simulation = asked.of_host(view.beginnings(asked.now, asked.producer_expiration))
    opened, selection = open_log_dirs(log_dirs), Selection(asked.topic)
    simulation.findings.extend(findings_of(opened))
    progress = Progress(output, "simulating", count(opened, selection))
    show_host(output, simulation, opened, progress.watch(selected_of(opened, selection)))
    return exit_code_of(simulation.findings) or simulation.beginnings.exit_code
