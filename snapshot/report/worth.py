"""Which partitions deserve to be shown first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def most_worth(topics: Iterable[Sequence[T]], is_blocked: Callable[[T], bool]) -> list[T]:
    """Partitions by how much they deserve to be seen; topics and the partitions of each are given worst first.

    Those where something stands in the way come first. Among them topics take turns, so that one topic with thousands
    of blocked partitions leaves room for the others.
    """
    keyed = [
        (not is_blocked(partition), turn, place, partition)
        for place, members in enumerate(topics)
        for turn, partition in enumerate(members)
    ]
    return [partition for *_, partition in sorted(keyed, key=lambda each: each[:3])]
