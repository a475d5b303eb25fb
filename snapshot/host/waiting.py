"""The partitions of a host whose segments are blocked."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.gate.verdict import Verdict


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """A partition with blocked segments.

    Attributes:
        partition: TOPIC-PARTITION.
        verdict: the worst of its verdicts.
        segments: number of blocked segments.
        bytes: size of the first blocked segment and all closed segments after it.
    """

    partition: str
    verdict: Verdict
    segments: int
    bytes: int
