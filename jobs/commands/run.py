"""`tiersnap run`: the main job, on Spark."""

from __future__ import annotations

from pathlib import Path

import click

from tiersnap.jobs import run as submitted
from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.cluster import leader_options
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.option_types import HTTP_URL
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.command import exit_code, run_options, tell
from tiersnap.jobs.pipeline.failures import spoken
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.submit_line import KeepsWords, submit_line, words_of
from tiersnap.jobs.shown import masked
from tiersnap.jobs.telemetry.lineage import LineageRun, lineage
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.jobs.tell.page import leave
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.snapshot.errors import ExitCode


@click.command(cls=KeepsWords)
@run_options
@leader_options
@spark_options
@metrics_options
@click.option(
    "--openlineage",
    type=HTTP_URL,
    metavar="URL",
    help="Tell an OpenLineage server when the run begins and how it ends.",
)
@click.option(
    "--report",
    type=LocalPath(file_okay=False),
    default="tiersnap-report",
    show_default=True,
    help="Folder of the readiness report.",
)
@click.option("--print-submit", is_flag=True, help="Print the spark-submit line of this run, and run nothing.")
@params.output_option
@click.pass_context
def run(
    ctx: click.Context,
    settings: RunSettings,
    cluster: Cluster | None,
    spark: SparkRequest,
    sinks: Sinks,
    openlineage: str | None,
    report: Path,
    print_submit: bool,
) -> int:
    """Decode, snapshot, tier and report.

    Leaves the missing producer snapshots and every segment that may be tiered in remote storage, and a report that
    says why the rest may not. Run again, it does nothing twice: only what is new or changed is read.
    """
    output = ctx.ensure_object(Output)
    if print_submit:
        config = ctx.find_root().params.get("config_path")
        click.echo(
            masked(
                submit_line(Path(submitted.__file__).absolute(), words_of(ctx), spark.master, spark.conf, config=config)
            )
        )
        return ExitCode.OK
    from tiersnap.jobs.pipeline.run import run as run_pipeline

    tracked = LineageRun(settings.run_id, "run", settings.sources, (settings.remote, settings.warehouse))
    with lineage(openlineage, tracked):
        with spoken("the run failed"):
            outcome = run_pipeline(spark.session, settings, cluster=cluster, talk=output.talk)
        code = exit_code(outcome, settings)
        tracked.facts |= outcome.as_facts() | {"exit_code": int(code)}
    if (made := outcome.report) is not None:
        leave(made, code, report, sinks, errors=outcome.error_count, seconds=outcome.seconds)
    tell(output, "run", outcome, settings, {"report": str(report / "index.html")})
    return code
