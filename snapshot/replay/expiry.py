"""Which entries a snapshot that we write leaves out.

A broker drops idle producers by its own clock, so too many entries in a file do no harm; too few do. Expiry is
therefore reckoned at the boundary and not at the time of writing, and one log gives one file whenever it is computed:
an entry is left out iff it has no open transaction and is older, by the expiration, than the largest record timestamp
of the segment that ends at the boundary. Where no record has a time, or that time lies in the future, nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.replay.producer_state import live_entries

DEFAULT_EXPIRATION_MS = 604_800_000  # transactional.id.expiration.ms


@dataclass(frozen=True, slots=True)
class Expiry:
    """How expiry is reckoned, all in ms.

    Attributes:
        expiration: idle time after which a producer is left out (transactional.id.expiration.ms); None keeps all.
        now: the run's only reading of the clock.
        as_of: another time for all boundaries; None reckons at each boundary.
    """

    expiration: int | None
    now: int
    as_of: int | None = None

    def time_of(self, boundary_timestamp: int) -> int | None:
        """The time that idle producers are counted back from, None where nothing is left out.

        Args:
            boundary_timestamp: largest record timestamp of the segment that ends at the boundary, -1 without one.
        """
        if self.expiration is None:
            return None
        if self.as_of is not None:
            return self.as_of
        return boundary_timestamp if 0 <= boundary_timestamp <= self.now else None

    def live(self, entries: np.ndarray, boundary_timestamp: int) -> np.ndarray:
        """The entries (ENTRY_DTYPE, order kept) that a snapshot at the boundary holds."""
        time = self.time_of(boundary_timestamp)
        return entries if time is None else live_entries(entries, as_of=time, expiration=self.expiration)
