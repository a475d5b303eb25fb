"""`tiersnap report diff`: what is different between two runs, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.report.changes import Changes, PartitionChange, PartitionState, compare_states
from tiersnap.snapshot.report.html_parts import difference
from tiersnap.snapshot.report.kept_runs import states_of_run

_COLUMNS = ("partition", "log_dir", "before", "after", "waits")


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
    changes = compare_states(states_of_run(folder, run_a), states_of_run(folder, run_b))
    output.rows("report diff", rows(changes), columns=_COLUMNS, summary=summary(changes))
    return ExitCode.OK


def rows(changes: Changes) -> Iterator[dict[str, object]]:
    """A row a partition that changed, worse first."""
    for each in changes.partitions:
        yield {
            "partition": f"{each.key.topic}-{each.key.partition}",
            "log_dir": each.key.log_dir,
            "topic": each.key.topic,
            "before": _worst(each.before),
            "after": _worst(each.after),
            "is_worse": each.is_worse,
            "waits": difference(each.waiting_bytes),
            **{f"{name}_{group}_bytes": size for name, group, size in _sizes(each)},
        }


def summary(changes: Changes) -> dict[str, object]:
    """Counts of partitions."""
    return {
        "worse": sum(each.is_worse for each in changes.partitions),
        "changed": len(changes.partitions),
        "unchanged": changes.unchanged,
        "new": changes.appeared,
        "gone": changes.gone,
    }


def _worst(state: PartitionState | None) -> str | None:
    return None if state is None else str(state.worst)


def _sizes(change: PartitionChange) -> Iterator[tuple[str, str, int | None]]:
    for name, state in (("before", change.before), ("after", change.after)):
        for group in ("tiered", "ready", "waiting"):
            yield name, group, None if state is None else getattr(state, group).bytes
