"""What `repair` would write into a partition, decided before anything is touched.

The newest snapshot of a partition becomes the broker's live state at the next start, so nothing is planned above the
newest that the broker has; where it has none, up to the newest segment's base offset and not the log end: the broker
folds the rest itself. A file that is there is replaced only when asked, and only if it is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from snapshot import snapshot_file
from snapshot.carry import Boundary
from snapshot.log_dir import Partition
from snapshot.producer_state import live_entries
from snapshot.trust import Provenance, SnapshotVerdict


class Action(StrEnum):
    """What happens at one offset."""

    WRITE = "WRITE"
    REPLACE = "REPLACE"
    KEEP = "KEEP"  # there and trusted
    NEEDS_REPLACE = "NEEDS_REPLACE"  # there and not to be trusted; --replace was not given
    ABOVE_NEWEST = "ABOVE_NEWEST"  # would become the live state
    STRAY = "STRAY"  # not aligned and not the newest: the broker deletes it when it opens the partition

    @property
    def writes(self) -> bool:
        """Whether a file is written."""
        return self in (Action.WRITE, Action.REPLACE)


@dataclass(frozen=True, slots=True)
class PlannedSnapshot:
    """One offset of the plan."""

    offset: int
    action: Action
    found: SnapshotVerdict
    reason: str
    provenance: Provenance
    entry_count: int


Write = Callable[[PlannedSnapshot, bytes], None]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan.

    Attributes:
        expiration: ms, producers idle that long at `as_of` (ms) are left out; None keeps all.
        every_boundary: write every aligned offset whatever is there (for a directory that is not the broker's).
        replace: also write where a file is there that is CORRUPT or SUSPECT.
        above_newest: also write above the newest file that is there.
    """

    expiration: int | None
    as_of: int
    every_boundary: bool = False
    replace: bool = False
    above_newest: bool = False


class Planner:
    """Plans a partition; call it with each boundary in ascending order.

    Snapshot bytes go straight to `write`, because those of a long partition together would not fit in memory.
    """

    def __init__(self, partition: Partition, options: PlanOptions, write: Write | None = None) -> None:
        """Decide the limit above which nothing is written; without `write` nothing is."""
        self._write = write
        self.planned: list[PlannedSnapshot] = []
        self._options = options
        self._bases = {segment.base_offset for segment in partition.segments}
        last_base = partition.segments[-1].base_offset if partition.segments else 0
        self._newest = max(partition.snapshots, default=last_base)

    def __call__(self, boundary: Boundary) -> None:
        """Plan one boundary."""
        action = self._action(boundary)
        entries = live_entries(boundary.entries, as_of=self._options.as_of, expiration=self._options.expiration)
        planned = PlannedSnapshot(
            offset=boundary.offset,
            action=action,
            found=boundary.found.verdict,
            reason=boundary.found.reason,
            provenance=boundary.provenance,
            entry_count=int(entries.size),
        )
        if action.writes and self._write is not None:
            self._write(planned, snapshot_file.encode(entries))
        self.planned.append(planned)

    def _action(self, boundary: Boundary) -> Action:
        options, found = self._options, boundary.found.verdict
        is_stray = boundary.offset not in self._bases and boundary.offset < self._newest
        if is_stray:
            return Action.STRAY
        if options.every_boundary:
            return Action.WRITE
        if found.is_trusted:
            return Action.KEEP
        if found is not SnapshotVerdict.MISSING:
            return Action.REPLACE if options.replace else Action.NEEDS_REPLACE
        if boundary.offset > self._newest and not options.above_newest:
            return Action.ABOVE_NEWEST
        return Action.WRITE
