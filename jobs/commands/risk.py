"""`tiersnap risk`: KIP-952's rejected alternatives in numbers for the logs that are there."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.log_dirs import expand, selection_options
from tiersnap.jobs.old_options.place import warehouse_of, warehouse_option
from tiersnap.jobs.old_options.risk import risk_options
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.risk import show_fleet, show_host
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.exactly_once.risk.log_dirs import HostRisk
from tiersnap.snapshot.exactly_once.risk.partition_risk import RiskSettings
from tiersnap.snapshot.log.findings import exit_code_of
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of


@click.command()
@click.argument("log_dirs", nargs=-1, metavar="[LOGDIR]...", envvar="TIERSNAP_SOURCE")
@warehouse_option
@selection_options
@params.crc_option
@click.option("--boundaries", is_flag=True, help="A row a segment's end instead of a row a partition.")
@click.option("--replica", "replicas", multiple=True, metavar="DIR", help="A log directory of another replica.")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows shown of a warehouse.")
@risk_options
@spark_options
@params.output_option
@click.pass_context
def risk(
    ctx: click.Context,
    log_dirs: tuple[str, ...],
    warehouse: str | None,
    selection: Selection,
    check_crc: bool,
    boundaries: bool,
    replicas: tuple[str, ...],
    limit: int,
    settings: RiskSettings,
    spark: SparkRequest,
) -> int:
    """Say what the alternatives that KIP-952 rejected would cost the logs of LOGDIR, worst first; nothing is written.

    An empty snapshot at each segment's end that lacks a right one: which producers it would lose, what would be
    appended twice, how long. Waiting until retention has removed those segments: how long, and how much stays untiered.
    A replay: bytes and time in full, within the expiration as KIP-952 proposed, and from the nearest snapshot on.

    With --warehouse the same over all partitions that a run has read, on Spark.
    """
    output: Output = ctx.obj
    uri = warehouse_of(ctx, "log_dirs", log_dirs, warehouse)
    if uri is not None:
        if replicas:
            raise UsageError("--replica needs a LOGDIR", hint="the tables hold no entries of snapshot files")
        from tiersnap.jobs.pipeline.risk import risk_of_warehouse

        found = risk_of_warehouse(spark.session, uri, selection, settings, boundaries=boundaries, limit=limit)
        show_fleet(output, found, boundaries=boundaries)
        return ExitCode.OK
    opened = open_log_dirs(expand(log_dirs))
    host, progress = HostRisk(opened, check_crc), Progress(output, "reading", count(opened, selection))
    risks = list(host.risks(progress.watch(selected_of(opened, selection)), settings))
    others = [row for replica in replicas for row in host.disagreements(replica)]
    show_host(output, host, risks, others, boundaries=boundaries)
    return exit_code_of(host.findings)
