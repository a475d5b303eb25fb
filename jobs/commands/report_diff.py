"""`tiersnap report diff`: what is different between two runs, partition by partition."""

from __future__ import annotations

from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.report_diff import show
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.report.changes import compare_states
from tiersnap.snapshot.report.kept_runs import states_of_run


@click.command("diff")
@click.argument("run_a")
@click.argument("run_b")
@click.option(
    "--in",
    "folder",
    type=LocalPath(file_okay=False),
    default="tiersnap-report",
    show_default=True,
    help="Folder of the report, which keeps what each run said.",
)
@params.output_option
@click.pass_obj
def report_diff(output: Output, run_a: str, run_b: str, folder: Path) -> int:
    """Say which partitions stand elsewhere in RUN_B than in RUN_A.

    RUN_A and RUN_B are ids of runs, as the page and runs.json of --in have them; or paths of a readiness.json, or of
    the folder that holds it.
    """
    show(output, compare_states(states_of_run(folder, run_a), states_of_run(folder, run_b)))
    return ExitCode.OK
