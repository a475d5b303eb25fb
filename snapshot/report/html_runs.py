"""The index of runs as a page: a plot of what waits, is ready and is tiered, and a row a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiersnap.snapshot.report.html_parts import moment, percent
from tiersnap.snapshot.report.run_history import RunHead
from tiersnap.snapshot.units import human_bytes

# From done to waiting, as bars are drawn.
GROUPS = {"tiered": "In remote storage", "ready": "Ready", "waiting": "Waiting", "never_tiered": "Stays local"}
MOST_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class RunBar:
    """A piece of one run's column; all are per cent of the plot."""

    name: str
    x: str
    y: str
    width: str
    height: str
    title: str


def part_of(head: RunHead, group: str) -> str:
    """Bytes of a group as per cent of all bytes of the run."""
    return percent(100 * int(getattr(head, f"{group}_bytes")) / max(1, head.bytes))


def columns(heads: Sequence[RunHead]) -> list[RunBar]:
    """The newest runs side by side, waiting below and tiered on top of it."""
    shown = heads[-MOST_COLUMNS:]
    highest = max((head.bytes for head in shown), default=0) or 1
    found = []
    for place, head in enumerate(shown):
        bottom = 100.0
        for group in ("waiting", "ready", "tiered", "never_tiered"):
            size = int(getattr(head, f"{group}_bytes"))
            if not size:
                continue
            height = 100 * size / highest
            bottom -= height
            title = f"{moment(head.finished_at)} · {GROUPS[group]} · {human_bytes(size)}"
            width = 100 / max(len(shown), 8)
            found.append(
                RunBar(group, percent(width * place), percent(bottom), percent(width * 0.8), percent(height), title)
            )
    return found
