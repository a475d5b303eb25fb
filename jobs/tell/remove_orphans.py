"""What `maintain remove-orphans` shows: a row an orphan, what was refused, and what is still there."""

from __future__ import annotations

from collections import Counter

from tiersnap.jobs.output import Output
from tiersnap.remote_storage.retire.orphans import Orphan
from tiersnap.remote_storage.retire.orphans_outcome import OrphansOutcome
from tiersnap.snapshot.units import count_of, format_duration, human_bytes, utc

_COLUMNS = ("topic", "partition", "kind", "action", "objects", "size", "name", "reason")


def show(output: Output, outcome: OrphansOutcome, *, older_than: int, applied: bool) -> None:
    """The result; `older_than` in ms."""
    younger = sum(len(each.keys) for each in outcome.waiting)
    last = max((each.removable_at for each in outcome.waiting), default=None)
    summary = {
        "orphans": dict(Counter(str(each.action) for each in outcome.found)),
        "removed": sum(not failures for _, failures in outcome.done),
        "bytes": sum(each.size for each in outcome.wanted),
        "younger": younger,
        "younger_removable_at": last,
    }
    rows, errors = [_row(each) for each in outcome.found], list(outcome.errors())
    output.row_dicts("maintain remove-orphans", rows, columns=_COLUMNS, summary=summary, errors=errors)
    for orphan in outcome.refused:
        output.warn(f"refused: {orphan.partition}: {orphan.reason}")
    for each in outcome.failures:
        output.warn(f"still there: {each.key}: {each.reason}")
    if last is not None:
        are = count_of(younger, "object is", "objects are")
        output.talk(f"{are} younger than {format_duration(older_than)} and left; removable from {utc(last)} on")
    if not outcome.wanted:
        output.talk("nothing to remove")
    elif not applied:
        output.talk("nothing was removed: give --apply")


def _row(orphan: Orphan) -> dict[str, object]:
    at = orphan.partition
    return {
        "topic": at.topic if at else "",
        "topic_id": at.topic_id if at else None,
        "partition": at.partition if at else None,
        "kind": str(orphan.kind),
        "action": str(orphan.action),
        "objects": len(orphan.keys),
        "bytes": orphan.size,
        "size": human_bytes(orphan.size),
        "name": orphan.segment_id or orphan.keys[0].rpartition("/")[2],
        "reason": orphan.reason,
        "keys": list(orphan.keys),
    }
