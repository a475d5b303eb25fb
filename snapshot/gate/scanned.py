"""A partition as it is judged now, by its log directory alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiersnap.snapshot.gate.examine import Examination
from tiersnap.snapshot.gate.readiness import Readiness
from tiersnap.snapshot.state.trust import SnapshotVerdict


@dataclass(frozen=True)
class Scanned:
    """A partition with its verdicts.

    Attributes:
        readiness: of its segments, in their order.
        snapshots: verdicts by offset.
        now: epoch ms.
        producer_expiration: ms; None if producers never expire.
    """

    examination: Examination
    readiness: tuple[Readiness, ...]
    snapshots: Mapping[int, SnapshotVerdict]
    now: int
    producer_expiration: int | None

    @classmethod
    def of(cls, examination: Examination, now: int, producer_expiration: int | None) -> Scanned:
        """Judge a partition; what remote storage holds of it, a log directory does not say."""
        readiness = examination.readiness(now=now, producer_expiration=producer_expiration)
        verdicts = {offset: found.verdict(now, producer_expiration) for offset, found in examination.snapshots.items()}
        return cls(examination, readiness, verdicts, now, producer_expiration)
