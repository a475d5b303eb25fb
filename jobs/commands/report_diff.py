"""`tiersnap report diff`: what is different between two runs, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import click
from msgspec import Meta

from tiersnap.jobs.command import command
from tiersnap.jobs.option_types import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.readiness.verdict import Verdict
from tiersnap.snapshot.report.changes import PartitionChange, PartitionState, compare_states


@dataclass(frozen=True, slots=True)
class ChangedPartition:
    """A partition that stands elsewhere in the second run (`report diff`); bytes are null where a run lacks it."""

    COLUMNS: ClassVar = ("partition", "log_dir", "before", "after", "waits")
    partition: str
    log_dir: str
    topic: str
    before: Verdict | None
    after: Verdict | None
    is_worse: bool
    waits: Annotated[str, Meta(description="bytes that wait, more or less than before")]
    before_tiered_bytes: int | None
    before_ready_bytes: int | None
    before_waiting_bytes: int | None
    after_tiered_bytes: int | None
    after_ready_bytes: int | None
    after_waiting_bytes: int | None


@dataclass(frozen=True, slots=True)
class DiffSummary:
    """Counts of partitions."""

    worse: int
    changed: int
    unchanged: int
    new: int
    gone: int


@command(ChangedPartition, name="diff", summary=DiffSummary)
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
def report_diff(output: Output, run_a: str, run_b: str, folder: Path) -> int:
    """Say which partitions stand elsewhere in RUN_B than in RUN_A.

    tiersnap report diff yesterday/readiness.json today/readiness.json

    RUN_A and RUN_B are ids of runs, as the page and runs.json of --in have them; or paths of a readiness.json, or of
    the folder that holds it.
    """
    from tiersnap.snapshot.report.run_history import states_of_run

    changes = compare_states(states_of_run(folder, run_a), states_of_run(folder, run_b))
    worse = sum(each.is_worse for each in changes.partitions)
    summary = DiffSummary(worse, len(changes.partitions), changes.unchanged, changes.appeared, changes.gone)
    output.rows(ChangedPartition, map(_row, changes.partitions), summary=summary)
    return ExitCode.OK


def _row(each: PartitionChange) -> ChangedPartition:
    from tiersnap.snapshot.report.html_parts import difference

    return ChangedPartition(
        f"{each.key.topic}-{each.key.partition}",
        each.key.log_dir,
        each.key.topic,
        None if each.before is None else each.before.worst,
        None if each.after is None else each.after.worst,
        each.is_worse,
        difference(each.waiting_bytes),
        *_sizes(each.before),
        *_sizes(each.after),
    )


def _sizes(state: PartitionState | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if state is None else (state.tiered_bytes, state.ready_bytes, state.waiting_bytes)
