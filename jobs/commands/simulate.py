"""`tiersnap simulate`: what producers would meet if a replica with a given snapshot became leader now."""

from __future__ import annotations

import click
from click.core import ParameterSource

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument, selection_options
from tiersnap.jobs.old_options.place import warehouse_of, warehouse_option
from tiersnap.jobs.old_options.remote_view import OF_BEGINNINGS, RemoteView, remote_view_options
from tiersnap.jobs.old_options.risk import RiskRequest, risk_options
from tiersnap.jobs.old_options.simulate import SimulateRequest, simulate_options
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell import risk as tell_risk
from tiersnap.jobs.tell.simulate import show_fleet, show_host
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.exactly_once.risk.log_dirs import HostRisk
from tiersnap.snapshot.exactly_once.risk.partition_risk import RiskSettings
from tiersnap.snapshot.log.disk_findings import findings_of
from tiersnap.snapshot.log.findings import exit_code_of
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of

_OF_RISK = {
    *("boundaries", "replicas", "limit", "retention", "retention_bytes", "tiering_enabled", "delivery_timeout"),
    "read_rate",
}
_OF_ANSWERS = {"start_from", "at", "client", "transaction_version", "everything", "producers", "expiration", "remote"}


@click.command()
@log_dirs_argument("[LOGDIR]", required=False)
@warehouse_option
@selection_options
@simulate_options
@risk_options
@remote_view_options(OF_BEGINNINGS, click.option)
@spark_options
@params.output_option
@click.pass_context
def simulate(
    ctx: click.Context,
    log_dirs: tuple[str, ...],
    warehouse: str | None,
    selection: Selection,
    asked: SimulateRequest,
    risk: RiskRequest,
    view: RemoteView,
    spark: SparkRequest,
) -> int:
    """Say what every producer of LOGDIR would meet if a replica with another snapshot became leader now.

    The replica has the snapshot that --from names and replayed the log from there. Each producer sends its next batch,
    its last ones again, one after a gap, as a fenced instance, and from sequence 0; a row says what the leader answers
    that never stopped, what the replica answers, and what the client makes of it, by release. Only answers that differ
    are listed, unless --all is given. Nothing is written. Of a log that begins in remote storage nothing is said,
    unless --remote says where that is.

    With --risk it says what the ways that KIP-952 rejected would cost, worst first. An empty snapshot at each segment's
    end that lacks a right one: which producers it would lose, what would be appended twice, how long. Waiting until
    retention has removed those segments: how long, and how much stays untiered. A replay: bytes and time in full,
    within the expiration as KIP-952 proposed, and from the nearest snapshot on.

    With --warehouse both are reckoned over all partitions that a run has read, on Spark; each replica begins at its
    newest segment's base offset.
    """
    output: Output = ctx.obj
    uri = warehouse_of(ctx, "log_dirs", log_dirs, warehouse)
    _refuse_options_of_the_other(ctx, is_risk=risk.is_asked)
    if risk.is_asked:
        settings = risk.settings(asked.now, asked.producer_expiration, asked.broker)
        if uri is not None:
            return _risk_of_warehouse(output, spark, uri, selection, settings, risk)
        return _risk_of_host(output, log_dirs, selection, settings, risk, check_crc=asked.check_crc)
    if uri is not None:
        task = asked.of_warehouse()
        from tiersnap.jobs.pipeline.simulate import simulate_warehouse

        found = simulate_warehouse(spark.session, uri, selection, task, everything=asked.everything)
        show_fleet(output, found.rows, found.tally.sentence(), found.said)
        return ExitCode.OK
    simulation = asked.of_host(view.beginnings(asked.now, asked.producer_expiration))
    opened = open_log_dirs(log_dirs)
    simulation.findings.extend(findings_of(opened))
    progress = Progress(output, "simulating", count(opened, selection))
    show_host(output, simulation, opened, progress.watch(selected_of(opened, selection)))
    return exit_code_of(simulation.findings) or simulation.beginnings.exit_code


def _refuse_options_of_the_other(ctx: click.Context, *, is_risk: bool) -> None:
    for param in ctx.command.params:
        is_typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if is_typed and param.name in (_OF_ANSWERS if is_risk else _OF_RISK):
            if is_risk:
                raise UsageError(f"{param.opts[0]} and --risk exclude each other", hint=f"leave out {param.opts[0]}")
            raise UsageError(f"{param.opts[0]} needs --risk", hint="add --risk")


def _risk_of_host(
    output: Output,
    log_dirs: tuple[str, ...],
    selection: Selection,
    settings: RiskSettings,
    asked: RiskRequest,
    *,
    check_crc: bool,
) -> int:
    opened = open_log_dirs(log_dirs)
    host, progress = HostRisk(opened, check_crc), Progress(output, "reading", count(opened, selection))
    risks = list(host.risks(progress.watch(selected_of(opened, selection)), settings))
    others = [row for replica in asked.replicas for row in host.disagreements(replica)]
    tell_risk.show_host(output, host, risks, others, boundaries=asked.boundaries)
    return exit_code_of(host.findings)


def _risk_of_warehouse(
    output: Output, spark: SparkRequest, uri: str, selection: Selection, settings: RiskSettings, asked: RiskRequest
) -> int:
    if asked.replicas:
        raise UsageError("--replica needs a LOGDIR", hint="the tables hold no entries of snapshot files")
    from tiersnap.jobs.pipeline.risk import risk_of_warehouse

    found = risk_of_warehouse(spark.session, uri, selection, settings, boundaries=asked.boundaries, limit=asked.limit)
    tell_risk.show_fleet(output, found, boundaries=asked.boundaries)
    return ExitCode.OK
