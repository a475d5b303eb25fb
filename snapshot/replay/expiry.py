"""Rules for idle producers.

They decide when tiersnap omits a producer from a snapshot, and when a broker drops a producer of a loaded snapshot.

A broker drops idle producers by its own clock. So a surplus entry in a file does no harm, but a missing entry may.
tiersnap measures the age of an entry at the largest record timestamp of the segment that ends at the snapshot offset.
So equal logs give equal files, whenever they are written. An entry is omitted if it has no open transaction and its age
is at least the expiration. If no record has a timestamp, or the largest one is in the future, no entry is omitted.
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
    """The expiration rules for snapshots that tiersnap writes. Times are in ms."""

    # Idle time after which a producer is omitted (transactional.id.expiration.ms); None omits no producer.
    expiration: int | None
    now: int  # time of the run
    as_of: int | None = None  # time at which all ages are measured; None measures at each snapshot offset's timestamp

    def checked(self, producer_expiration: int | None) -> Expiry:
        """Check these rules against the broker's producer.id.expiration.ms, and return them.

        If the broker never drops producers, `producer_expiration` is None.

        Raises:
            UsageError: a snapshot that follows these rules would lack producers that the broker still keeps.
        """
        if self.expiration is not None and (producer_expiration is None or self.expiration < producer_expiration):
            raise UsageError(
                f"--expiration {format_duration(self.expiration)} is below the broker's "
                f"producer.id.expiration.ms, {format_duration(producer_expiration)}: the snapshots would lack "
                "producers that the broker still keeps",
                hint="give a longer --expiration; or as --producer-expiration the broker's producer.id.expiration.ms",
            )
        if self.as_of is not None and self.as_of > self.now:
            raise UsageError(
                "--as-of is in the future: the snapshots would lack active producers",
                hint="remove --as-of: then each snapshot uses the largest timestamp below its offset",
            )
        return self

    def time_of(self, boundary_timestamp: int) -> int | None:
        """Return the time (ms) at which the ages of entries are measured; None if no entry is omitted.

        Args:
            boundary_timestamp: largest record timestamp of the segment that ends at the snapshot offset; -1 without
                one.
        """
        if self.expiration is None:
            return None
        if self.as_of is not None:
            return self.as_of
        if 0 <= boundary_timestamp <= self.now:
            return boundary_timestamp
        return None

    def live(self, entries: np.ndarray, boundary_timestamp: int) -> np.ndarray:
        """Return the entries (ENTRY_DTYPE, in their order) that tiersnap writes into the snapshot.

        Args:
            boundary_timestamp: see `time_of`.
        """
        time = self.time_of(boundary_timestamp)
        if time is None:
            return entries
        return live_entries(entries, as_of=time, expiration=self.expiration)


@dataclass(frozen=True, slots=True)
class BrokerExpiry:
    """The rules by which a broker drops idle producers when it loads a snapshot. Times are in ms."""

    now: int  # time at which the broker loads the snapshot
    expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS  # producer.id.expiration.ms; None if it never drops any

    @property
    def since(self) -> int | None:
        """Return the time limit in ms; None if no producer expires.

        A producer has expired if its last batch is not later than this limit.
        """
        return None if self.expiration is None else self.now - self.expiration

    def live(self, entries: np.ndarray) -> np.ndarray:
        """Return the entries that the broker keeps, in their order (ProducerStateManager.isProducerExpired)."""
        return live_entries(entries, as_of=self.now, expiration=self.expiration)


DAY_MS = 86_400_000


def fingerprint(*parts: object) -> str:
    """Return a short digest of plain values. Equal values have equal digests."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


class Scan(StrEnum):
    """The part of a log that is decoded."""

    EXACT = "exact"  # all segments that remote storage lacks
    WINDOW = "window"  # segments within the expiration, and older ones that complete the producers' entries


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay.

    Raises:
        UsageError: scan is WINDOW and expiration is None.
    """

    expiration: int | None = 7 * DAY_MS  # ms; see Expiry
    as_of: int | None = None  # ms; see Expiry
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS  # ms, the broker's producer.id.expiration.ms
    every_boundary: bool = False  # write a snapshot at each segment's end, even if a file exists there
    replace: bool = False  # replace the broker's file if it is CORRUPT or SUSPECT, and upload the computed snapshot
    # WINDOW does not decode segments that are older than `expiration`; see replay.window_start.
    scan: Scan = Scan.EXACT

    def __post_init__(self) -> None:
        if self.scan is Scan.WINDOW and self.expiration is None:
            raise UsageError(
                "--scan window needs --expiration, which is the length of the window",
                hint="give --scan exact, or --expiration 7d",
            )

    def since(self, now: int) -> int | None:
        """Return the start of the scan window (ms), or None for the whole log; `now` is the time of the run (ms)."""
        if self.scan is Scan.EXACT or self.expiration is None:
            return None
        if self.as_of is not None:
            return self.as_of - self.expiration
        return now - self.expiration

    def expiry(self, now: int) -> Expiry:
        """Return the expiration rules for snapshots that are written at `now` (ms)."""
        return Expiry(self.expiration, now, self.as_of)

    def broker_expiry(self, now: int) -> BrokerExpiry:
        """Return the broker's expiration rules at `now` (ms)."""
        return BrokerExpiry(now, self.producer_expiration)

    def digest(self, *, place: str | None) -> str:
        """Return a digest of the options. Two runs with equal digests give the same results for an unchanged partition.

        Args:
            place: the remote location; None without a remote location.
        """
        return fingerprint(
            *(self.expiration, self.as_of, self.producer_expiration, self.every_boundary, self.replace),
            *(str(self.scan), place),
        )
