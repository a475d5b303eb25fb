"""`tiersnap run`: the main job."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.command import StageRequest, exit_code, stage_options, tell
from tiersnap.jobs.pipeline.run import Outcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot import __version__
from tiersnap.snapshot.report import RunInfo, summarise, write_report


@click.command()
@stage_options
@click.option(
    "--report",
    type=LocalPath(file_okay=False),
    default="tiersnap-report",
    show_default=True,
    help="Folder of the readiness report.",
)
@params.output_option
@click.pass_obj
def run(output: Output, request: StageRequest, report: Path) -> int:
    """Decode, snapshot, tier and report.

    Leaves the missing producer snapshots and every segment that may be tiered in remote storage, and a report that
    says why the rest may not. Run again, it does nothing twice: only what is new or changed is read.
    """
    outcome = request.run(output.talk)
    info = _run_info(request.settings, outcome)
    write_report(summarise(outcome.readiness, info), report)
    tell(output, "run", outcome, request.settings, {"report": str(report / "index.html")})
    return exit_code(outcome, request.settings)


def _run_info(settings: RunSettings, outcome: Outcome) -> RunInfo:
    return RunInfo(
        run_id=settings.run_id,
        started_at=settings.now,
        finished_at=int(time.time() * 1000),
        source=", ".join(settings.sources),
        remote=settings.remote or "",
        warehouse=settings.warehouse,
        version=__version__,
        applied=settings.apply,
        segments_decoded=outcome.decoded.count,
        bytes_decoded=outcome.decoded.bytes,
        snapshots_written=outcome.carried.written,
        segments_tiered=outcome.tiered.segments,
        bytes_tiered=outcome.tiered.bytes,
        delta_commits=outcome.commits,
    )
