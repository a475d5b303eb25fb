"""A transaction without an end in a restored log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestoredTransaction:
    """A transaction without an end in a restored log.

    It holds the last stable offset at its first offset.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
