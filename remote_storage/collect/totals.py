"""What was collected of a log directory, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiersnap.remote_storage.collect.collect import Collected
from tiersnap.snapshot.errors import ExitCode, TiersnapError, TransientError


@dataclass
class CollectTotals:
    """Counts, partition after partition; a plan with its rows is let go of when it is counted.

    Attributes:
        changed: partitions with something to ship.
        segments: that were decoded, or are to be.
        bytes: of them.
        snapshots: files that were shipped, or are to be.
        errors: of the partitions that stay as they were.
    """

    changed: int = 0
    segments: int = 0
    bytes: int = 0
    snapshots: int = 0
    errors: list[TiersnapError] = field(default_factory=list)

    def add(self, done: Collected) -> None:
        """Count a partition."""
        if done.error is not None:
            self.errors.append(done.error)
        elif done.plan is not None:
            self.changed += done.plan.is_changed
            self.segments += len(done.plan.segments)
            self.bytes += done.plan.bytes_to_read
            self.snapshots += len(done.plan.snapshot_files)

    @property
    def exit_code(self) -> ExitCode:
        """OK, or that some partitions stay as they were."""
        if not self.errors:
            return ExitCode.OK
        is_transient = all(isinstance(error, TransientError) for error in self.errors)
        return ExitCode.TRANSIENT if is_transient else ExitCode.PARTIAL
