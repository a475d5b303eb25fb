"""What a replay writes, how much of the log it reads, and what a file that is there is held against."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.replay.trust import DEFAULT_PRODUCER_EXPIRATION_MS

DAY_MS = 86_400_000


def fingerprint(*parts: object) -> str:
    """Return a short digest of plain data: equal data, equal text."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


class Scan(StrEnum):
    """How much of a log is decoded."""

    EXACT = "exact"  # all that remote storage does not hold
    WINDOW = "window"  # what is within the expiration, and what producers must be followed back into


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay.

    Attributes:
        expiration: ms; producers idle that long are left out of what is written; None keeps all.
        as_of: ms, the moment that `expiration` counts back from; None reckons at each boundary.
        producer_expiration: ms, the broker's producer.id.expiration.ms.
        every_boundary: write every aligned boundary, not only those that lack a snapshot.
        replace: also write where the broker's file is CORRUPT or SUSPECT, and tier with what was written.
        scan: EXACT, or WINDOW to leave undecoded what is older than `expiration` (see replay.scan_window).

    Raises:
        UsageError: a window without an expiration.
    """

    expiration: int | None = 7 * DAY_MS
    as_of: int | None = None
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS
    every_boundary: bool = False
    replace: bool = False
    scan: Scan = Scan.EXACT

    def __post_init__(self) -> None:
        if self.scan is Scan.WINDOW and self.expiration is None:
            raise UsageError(
                "a window needs an expiration: it is how far back the scan goes",
                hint="--scan exact, or --expiration 7d",
            )

    def since(self, now: int) -> int | None:
        """Where the scan window begins (ms), None where all is scanned; `now` is the run's (ms)."""
        if self.scan is Scan.EXACT or self.expiration is None:
            return None
        return (now if self.as_of is None else self.as_of) - self.expiration

    def digest(self, *, place: str | None) -> str:
        """Equal for two runs that would say and write the same of a partition; `place` is where, or None."""
        return fingerprint(
            *(self.expiration, self.as_of, self.producer_expiration, self.every_boundary, self.replace),
            *(str(self.scan), place),
        )
