"""What is known beside a report: the runs before it, and what the other two questions rest on."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tiersnap.snapshot.report.changes import Changes
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.next_step import Step
from tiersnap.snapshot.report.run_head import RunHead


@dataclass(frozen=True, slots=True)
class Beside:
    """Of the folder that a report is written to.

    Attributes:
        now: the report's own head.
        runs: all heads, this one among them, oldest first.
        before: the run before; None for the first.
        changes: since then, partition by partition; None where what that run said of them is not kept.
        folder: as it was given, for commands; "" where there is none.
    """

    now: RunHead
    runs: tuple[RunHead, ...]
    before: RunHead | None = None
    changes: Changes | None = None
    folder: str = ""

    @classmethod
    def of(cls, report: Report) -> Beside:
        """Of a report that stands alone."""
        head = RunHead.of(report)
        return cls(head, (head,))

    def diff_steps(self) -> tuple[Step, ...]:
        """The command that compares this run with the one before."""
        if self.before is None:
            return (Step("The next run in this folder will be compared with this one.", "", True),)
        words = ["tiersnap", "report", "diff", self.before.run_id, self.now.run_id, "--in", self.folder or "FOLDER"]
        return (Step("", shlex.join(words), bool(self.folder)),)


def run_file(run_id: str) -> str:
    """A run's id as the name of its files, without a suffix."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", run_id)[:100] or "run"
