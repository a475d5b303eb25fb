"""`tiersnap tier`: the segments of chosen topics into remote storage, without a report."""

from __future__ import annotations

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.command import exit_code, tell
from tiersnap.jobs.pipeline.command import run_options as stage_options


@click.command()
@stage_options
@params.output_option
@click.pass_obj
def tier(output: Output, request: StageRequest) -> int:
    """Tier the segments that may be tiered, writing the snapshots they lack.

    What `tiersnap run` does, without the readiness report: the tables are the same, and either goes on where the
    other stopped. Brokers see the segments once `tiersnap publish` has told them.
    """
    outcome = request.run(output.talk)
    tell(output, "tier", outcome, request.settings)
    return exit_code(outcome, request.settings)
