"""What `maintain remove-orphans` shows: a row an orphan, what was refused, and what is still there."""

from __future__ import annotations

from collections import Counter

from tiersnap.jobs.command_line.output import Output
from tiersnap.remote_storage.orphans.judge import Orphan
from tiersnap.remote_storage.orphans.outcome import OrphansOutcome
from tiersnap.snapshot.units import human_bytes

_COLUMNS = ("topic", "partition", "kind", "action", "objects", "size", "name", "reason")


def show(output: Output, outcome: OrphansOutcome, *, applied: bool) -> None:
    """The result."""
    summary = {
        "orphans": dict(Counter(str(each.action) for each in outcome.found)),
        "removed": sum(not failures for _, failures in outcome.done),
        "bytes": sum(each.size for each in outcome.wanted),
    }
    rows, errors = [_row(each) for each in outcome.found], list(outcome.errors())
    output.rows("maintain remove-orphans", rows, columns=_COLUMNS, summary=summary, errors=errors)
    for orphan in outcome.refused:
        output.warn(f"refused: {orphan.partition}: {orphan.reason}")
    for each in outcome.failures:
        output.warn(f"still there: {each.key}: {each.reason}")
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
