"""Log start offsets of a partition's replicas: they should not go back with a new leader, and nobody sees to it.

A leader that does not know the newest one serves records that were deleted, and state that was dropped with them comes
back: a producer that began anew with sequence 0 is then out of order (seed statement 0.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class ReplicaLogStart:
    """What one replica says.

    Attributes:
        log_dir: which replica.
        leader_epoch: the newest in its leader-epoch-checkpoint.
        log_start_offset: by its checkpoint, or of its first segment.
    """

    log_dir: str
    leader_epoch: int
    log_start_offset: int


def went_back(replicas: Iterable[ReplicaLogStart]) -> list[tuple[ReplicaLogStart, ReplicaLogStart]]:
    """Pairs of replicas, the second of a newer leader epoch and with a lower log start offset than the first.

    Of replicas of one leader epoch the furthest counts: a follower learns its leader's log start offset as it fetches.
    """
    furthest: dict[int, ReplicaLogStart] = {}
    for replica in replicas:
        known = furthest.get(replica.leader_epoch)
        if known is None or known.log_start_offset < replica.log_start_offset:
            furthest[replica.leader_epoch] = replica
    by_epoch = [furthest[epoch] for epoch in sorted(furthest)]
    return [(old, new) for old, new in pairwise(by_epoch) if new.log_start_offset < old.log_start_offset]
