"""Types for the results of a restored log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class RestoredTransaction:
    """An open transaction of a restored log. It keeps the last stable offset at or below `first_offset`."""

    producer_id: int
    producer_epoch: int
    first_offset: int


@dataclass(slots=True)
class RestoredFiles:
    """Counts of the files that were written for a restored log besides its segments."""

    snapshots: int = 0
    producers: int = 0
    largest_producer_id: int = -1
    largest_leader_epoch: int = -1
    rebuilt_snapshots: Annotated[
        list[tuple[int, str]], Meta(description="(offset, reason) of each snapshot that restore computed from the log")
    ] = field(default_factory=list)
    rebuilt_indexes: Annotated[
        int,
        Meta(
            description="number of rebuilt indexes that differ from the remote indexes; the rebuilt index and the "
            "remote index may both be right"
        ),
    ] = 0
    transaction_indexes: int = 0
    doubts: Annotated[
        list[str],
        Meta(description="contradictions between remote objects and the log; the restored files agree with the log"),
    ] = field(default_factory=list)
