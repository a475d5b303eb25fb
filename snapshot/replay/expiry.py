"""Expiry of idle producers: in a snapshot that tiersnap writes, and in a broker that loads one.

A broker drops idle producers by its own clock. So too many entries in a file do no harm, but too few do. Expiry counts
back from a time of the boundary, not from the time of writing, so one log always gives the same file. That time is the
largest record timestamp of the segment that ends at the boundary. An entry is left out iff it has no open transaction
and is older than that time by more than the expiration. If no record has a timestamp, or the largest one is in the
future, no entry is left out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.producer_fold import live_entries
from tiersnap.snapshot.units import format_duration

DEFAULT_EXPIRATION_MS = 604_800_000  # transactional.id.expiration.ms
DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms


@dataclass(frozen=True, slots=True)
class Expiry:
    """The rules of expiry, all in ms."""

    # Idle time after which a producer is left out (transactional.id.expiration.ms); None keeps all.
    expiration: int | None
    now: int  # the run's only reading of the clock
    as_of: int | None = None  # one time for all boundaries; None takes the time of each boundary

    def checked(self, producer_expiration: int | None) -> Expiry:
        """Return these rules, checked against a broker's producer.id.expiration.ms (None: it never drops producers).

        Raises:
            UsageError: a file by these rules would lack producers that the broker still keeps.
        """
        if self.expiration is not None and (producer_expiration is None or self.expiration < producer_expiration):
            raise UsageError(
                f"--expiration {format_duration(self.expiration)} is below the broker's producer.id.expiration.ms, "
                f"{format_duration(producer_expiration)}: the files would lack producers that it still keeps",
                hint="give a longer --expiration, or the broker's own value as --producer-expiration",
            )
        if self.as_of is not None and self.as_of > self.now:
            raise UsageError(
                "--as-of lies in the future: the files would lack producers that are alive",
                hint="leave --as-of out: expiry is then counted at each boundary",
            )
        return self

    def time_of(self, boundary_timestamp: int) -> int | None:
        """Return the time (ms) from which the expiration counts back; None if no entry is left out.

        Args:
            boundary_timestamp: largest record timestamp of the segment that ends at the boundary, -1 without one.
        """
        if self.expiration is None:
            return None
        if self.as_of is not None:
            return self.as_of
        return boundary_timestamp if 0 <= boundary_timestamp <= self.now else None

    def live(self, entries: np.ndarray, boundary_timestamp: int) -> np.ndarray:
        """Return the entries (ENTRY_DTYPE, order kept) that a snapshot at the boundary holds."""
        time = self.time_of(boundary_timestamp)
        return entries if time is None else live_entries(entries, as_of=time, expiration=self.expiration)


@dataclass(frozen=True, slots=True)
class BrokerExpiry:
    """The time at which a broker loads a snapshot, and how long it keeps idle producers; both in ms."""

    now: int
    expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS  # producer.id.expiration.ms; None if it never drops any

    @property
    def since(self) -> int | None:
        """Return the time (ms) before which a producer has expired; None if the broker keeps all."""
        return None if self.expiration is None else self.now - self.expiration

    def live(self, entries: np.ndarray) -> np.ndarray:
        """Return the entries that the broker keeps, in their order (ProducerStateManager.isProducerExpired)."""
        return live_entries(entries, as_of=self.now, expiration=self.expiration)


DAY_MS = 86_400_000


def fingerprint(*parts: object) -> str:
    """Return a short digest of plain data; equal data have equal digests."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


class Scan(StrEnum):
    """The part of a log that is decoded."""

    EXACT = "exact"  # all segments that remote storage lacks
    WINDOW = "window"  # segments within the expiration, and older ones into which producers are followed back


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay.

    Raises:
        UsageError: a window without an expiration.
    """

    expiration: int | None = 7 * DAY_MS  # ms; written snapshots leave out producers idle that long; None keeps all
    as_of: int | None = None  # ms, the time from which `expiration` counts back; None takes the time of each boundary
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS  # ms, the broker's producer.id.expiration.ms
    every_boundary: bool = False  # write a snapshot at every aligned boundary, not only at those without one
    replace: bool = False  # also write if the broker's file is CORRUPT or SUSPECT, and upload the written snapshot
    # WINDOW leaves segments older than `expiration` undecoded (see replay.window_start)
    scan: Scan = Scan.EXACT

    def __post_init__(self) -> None:
        if self.scan is Scan.WINDOW and self.expiration is None:
            raise UsageError(
                "a window needs an expiration: it is how far back the scan goes",
                hint="--scan exact, or --expiration 7d",
            )

    def since(self, now: int) -> int | None:
        """Return the begin of the scan window (ms); None if all is scanned. `now` is the time of the run (ms)."""
        if self.scan is Scan.EXACT or self.expiration is None:
            return None
        return (now if self.as_of is None else self.as_of) - self.expiration

    def expiry(self, now: int) -> Expiry:
        """Return the expiry of entries that are written at `now` (ms)."""
        return Expiry(self.expiration, now, self.as_of)

    def broker_expiry(self, now: int) -> BrokerExpiry:
        """Return the broker's expiry at `now` (ms)."""
        return BrokerExpiry(now, self.producer_expiration)

    def digest(self, *, place: str | None) -> str:
        """Return a digest that two runs share if they would find and write the same for a partition.

        `place` is the remote location; None without one.
        """
        return fingerprint(
            *(self.expiration, self.as_of, self.producer_expiration, self.every_boundary, self.replace),
            *(str(self.scan), place),
        )
