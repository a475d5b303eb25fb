"""Kinds of what a simulation asks: the snapshot that a leader begins with, and the next write."""

from __future__ import annotations

from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.verification import CheckResult


class SnapshotOrigin(StrEnum):
    """Where the replica's snapshot is from."""

    BROKER = "broker"
    OLDER = "older"
    OURS = "ours"
    EMPTY = "empty"
    ANOTHER = "another"

    @property
    def is_file(self) -> bool:
        """Whether it is a file that exists."""
        return self not in (SnapshotOrigin.OURS, SnapshotOrigin.EMPTY)


class Write(StrEnum):
    """Kinds of next writes."""

    NEXT = "NEXT"
    RETRY_OF_LAST = "RETRY_OF_LAST"
    RETRY_OF_OLDER = "RETRY_OF_OLDER"
    RETRY_BEFORE_BUMP = "RETRY_BEFORE_BUMP"
    AFTER_GAP = "AFTER_GAP"
    ZOMBIE_EPOCH = "ZOMBIE_EPOCH"
    RESET_TO_ZERO = "RESET_TO_ZERO"
    BUMPED_EPOCH = "BUMPED_EPOCH"

    @property
    def is_retry(self) -> bool:
        """Whether its records are in the log already."""
        return self in (Write.RETRY_OF_LAST, Write.RETRY_OF_OLDER, Write.RETRY_BEFORE_BUMP)

    def coordinator_says(self, *, is_ongoing: bool) -> CheckResult:
        """Return the answer of a coordinator that is asked before the append.

        Args:
            is_ongoing: the producer's transaction is open on the leader, and so is it at the coordinator.
        """
        if self in (Write.ZOMBIE_EPOCH, Write.RETRY_BEFORE_BUMP):
            return CheckResult.FENCED
        return CheckResult.VERIFIED if is_ongoing or not self.is_retry else CheckResult.PARTITION_MISSING
