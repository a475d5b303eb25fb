"""What `report diff` shows: a row a partition that changed, and counts."""

from __future__ import annotations

from collections.abc import Iterator

from tiersnap.jobs.output import Output
from tiersnap.snapshot.report.changes import Changes, PartitionChange, PartitionState
from tiersnap.snapshot.report.html_parts import difference

_COLUMNS = ("partition", "log_dir", "before", "after", "waits")


def show(output: Output, changes: Changes) -> None:
    """The result."""
    output.row_dicts("report diff", _rows(changes), columns=_COLUMNS, summary=_summary(changes))


def _rows(changes: Changes) -> Iterator[dict[str, object]]:
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


def _summary(changes: Changes) -> dict[str, object]:
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
