"""Kinds of rows about a restored log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class RestoredTransaction:
    """A transaction without an end in a restored log.

    It holds the last stable offset at its first offset.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int


@dataclass(slots=True)
class RestoredFiles:
    """Counts of the files that were made for a restored log besides its segments."""

    snapshots: int = 0
    producers: int = 0
    largest_producer_id: int = -1
    largest_leader_epoch: int = -1
    rebuilt_snapshots: Annotated[
        list[tuple[int, str]], Meta(description="offset and reason of snapshots that are not the tier's")
    ] = field(default_factory=list)
    rebuilt_indexes: Annotated[
        int, Meta(description="offset and time indexes that differ from the tier's, which is no fault of either")
    ] = 0
    transaction_indexes: int = 0
    doubts: Annotated[
        list[str], Meta(description="where the tier contradicts the log or itself; the log settled each of them")
    ] = field(default_factory=list)
