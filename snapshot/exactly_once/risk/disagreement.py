"""Replicas of one partition beside each other: where their snapshots and their log starts say different things.

Replicas may disagree without harm: each forgets producers as its own log loses them, and followers trust the leader.
What matters is who would be leader next. A log start offset that goes back is another matter: clients that were told
the higher one take an answer of the lower one for a loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two snapshots of one offset; counts are producers.

    Attributes:
        only_first, only_second: known to one alone.
        differing: known to both, with other values.
    """

    offset: int
    only_first: int
    only_second: int
    differing: int

    @property
    def agrees(self) -> bool:
        """Whether both say the same."""
        return not (self.only_first or self.only_second or self.differing)


def disagreement(offset: int, first: np.ndarray, second: np.ndarray) -> Disagreement:
    """Hold two snapshots (ENTRY_DTYPE, ascending producer id) against each other."""
    in_second = np.isin(first["producer_id"], second["producer_id"], assume_unique=True)
    in_first = np.isin(second["producer_id"], first["producer_id"], assume_unique=True)
    differing = int((first[in_second] != second[in_first]).sum())
    return Disagreement(offset, int((~in_second).sum()), int((~in_first).sum()), differing)


def newest_disagreement(
    first: Mapping[int, np.ndarray], second: Mapping[int, np.ndarray]
) -> tuple[int, Disagreement | None]:
    """How many offsets have a snapshot in both, and the newest at which they differ; None where none does.

    Args:
        first, second: entries (ENTRY_DTYPE, ascending producer id) by offset.
    """
    common = sorted(first.keys() & second.keys(), reverse=True)
    held = (disagreement(offset, first[offset], second[offset]) for offset in common)
    return len(common), next((each for each in held if not each.agrees), None)


def log_start_goes_back(leader: int, follower: int) -> bool:
    """Whether the follower, as the next leader, would name a lower log start offset than clients have seen."""
    return follower < leader
