"""What `collect` shows: a row a partition, and the counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiersnap.jobs.command_line.output import Output
from tiersnap.remote_storage.collect.collect import Collected
from tiersnap.remote_storage.collect.totals import CollectTotals
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.units import human_bytes

_COLUMNS = ("partition", "segments", "to_decode", "to_read", "snapshots", "gone", "error")


def show(
    output: Output,
    collected: Iterable[Collected],
    totals: CollectTotals,
    *,
    findings: Sequence[Finding],
    applied: bool,
) -> None:
    """The result; what is collected is counted in `totals` while rows are made of it."""
    rows = []
    for each in collected:
        totals.add(each)
        rows.append(_row(each))
    summary = _summary(totals, applied=applied)
    output.rows("collect", rows, columns=_COLUMNS, summary=summary, findings=findings, errors=totals.errors)
    if not applied:
        output.talk("nothing was shipped: give --apply")
    elif not totals.changed:
        output.talk("nothing to do: what was shipped is what is there")


def _row(done: Collected) -> dict[str, object]:
    plan, error = done.plan, done.error
    return {
        "partition": done.folder,
        "segments": None if plan is None else len(plan.partition.segments),
        "to_decode": None if plan is None else len(plan.segments),
        "bytes_to_read": None if plan is None else plan.bytes_to_read,
        "to_read": None if plan is None else human_bytes(plan.bytes_to_read),
        "snapshots": None if plan is None else len(plan.snapshot_files),
        "gone": None if plan is None else len(plan.gone),
        "error": None if error is None else error.message,
    }


def _summary(totals: CollectTotals, *, applied: bool) -> dict[str, object]:
    names = ("segments_decoded", "bytes_read", "snapshots_shipped")
    planned = ("segments_to_decode", "bytes_to_read", "snapshots_to_ship")
    values = (totals.segments, totals.bytes, totals.snapshots)
    return dict(zip(names if applied else planned, values, strict=True))
