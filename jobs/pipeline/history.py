"""Rows of `runs` for runs that ended after a commit and before they wrote their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tiersnap.jobs.pipeline import counted
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.warehouse import Warehouse


def unrecorded_runs(
    warehouse: Warehouse, numbers: Collection[int], settings: RunSettings, collected: Mapping[str, str]
) -> Iterator[dict[str, object]]:
    """Give a row of `runs` for each of the runs `numbers`, counted in the rows that it committed.

    Their ids and times are those of their commits. Their settings are lost: the row holds those of the run that writes
    it, and that run's id as `recorded_by`.

    Args:
        settings, collected: of the run that writes the rows.
    """
    known = warehouse.commits_of(numbers) if numbers else {}
    for number in numbers:
        outcome = RunOutcome()
        counted.count_decoded(outcome, warehouse.read("segments"), number, collected)
        counted.count_replayed(outcome, warehouse.read("partitions"), number)
        counted.count_tiered(outcome, warehouse.read("remote_log_segments"), number)
        row = counted.row_of_runs(outcome, settings, number, collected=dict(collected), recorded_by=settings.run_id)
        if (commits := known.get(number)) is not None:
            row |= {"run_id": commits.run_id, "started_at": commits.first, "finished_at": commits.last}
        else:
            row |= {"run_id": f"unknown-{number}", "started_at": settings.now, "finished_at": settings.now}
        yield row
