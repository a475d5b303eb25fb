"""The partitions of a host that have blocked segments."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.gate.verdict import Verdict


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """A partition with blocked segments.

    Attributes:
        partition: TOPIC-PARTITION.
        verdict: worst verdict on its segments.
        segments: number of blocked segments.
        bytes: total size of the first blocked segment and the closed segments after it.
    """

    partition: str
    verdict: Verdict
    segments: int
    bytes: int
