"""The totals of a collected log directory."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiersnap.remote_storage.collect.collect import Collected
from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.readiness.exit_codes import exit_code_of_all


@dataclass
class CollectTotals:
    """Counts, partition after partition; a plan with its rows is let go of when it is counted.

    Attributes:
        changed: partitions with something to ship.
        segments: that were decoded, or are to be.
        bytes: of them.
        snapshots: files that were shipped, or are to be.
        errors: of the partitions that stay as they were.
        findings: of the log directories and of the folders in them; what is in segments `run` judges.
    """

    changed: int = 0
    segments: int = 0
    bytes: int = 0
    snapshots: int = 0
    errors: list[TiersnapError] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, done: Collected) -> None:
        """Count a partition."""
        if done.error is not None:
            self.errors.append(done.error)
        elif done.plan is not None:
            self.findings += done.plan.partition.findings
            self.changed += done.plan.is_changed
            self.segments += len(done.plan.segments)
            self.bytes += done.plan.bytes_to_read
            self.snapshots += len(done.plan.snapshot_files)

    @property
    def exit_code(self) -> ExitCode:
        """OK, or what was found, or that some partitions stay as they were."""
        return exit_code_of_all(self.findings, self.errors, ExitCode.OK)
