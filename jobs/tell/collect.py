"""What `collect` shows: a row a partition, and the counts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from tiersnap.jobs.again import again
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.collect.collect import Collected
from tiersnap.remote_storage.collect.totals import CollectTotals
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.units import human_bytes

_COLUMNS = ("partition", "segments", "to_decode", "to_read", "snapshots", "gone", "error")


def show(
    output: Output,
    collected: Iterable[tuple[NamedLogDir, Collected]],
    totals: CollectTotals,
    *,
    log_dirs: Sequence[NamedLogDir],
    places: Sequence[str],
    applied: bool,
) -> None:
    """The result; what is collected is counted in `totals` while rows are made of it.

    Args:
        places: the folder that each of `log_dirs` goes to.
    """
    rows = []
    for log_dir, each in collected:
        totals.add(each)
        rows.append({"log_dir": log_dir.uri, **_row(each)})
    columns = (*(("log_dir",) if len(log_dirs) > 1 else ()), *_COLUMNS)
    summary = _summary(totals, applied=applied)
    output.row_dicts("collect", rows, columns=columns, summary=summary, findings=totals.findings, errors=totals.errors)
    if not applied:
        output.talk(f"nothing was shipped; next: {again('--apply')}")
    elif not totals.changed:
        output.talk("nothing to do: what was shipped is what is there")
    if len(places) > 1:
        output.talk(f"a run takes them as: {shlex.join(word for place in places for word in ('--source', place))}")


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
