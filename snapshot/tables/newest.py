"""Newest rows of a table, for readers without Spark. jobs.pipeline.newest does the same for a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Row = TypeVar("Row")
Key = TypeVar("Key", bound=Hashable)


def newest_of(
    rows: Iterable[Row], key: Callable[[Row], Key], order: Callable[[Row], tuple[object, ...]]
) -> dict[Key, Row]:
    """Return for each key the row with the greatest order. If orders are equal, the first row is kept."""
    newest: dict[Key, Row] = {}
    for each in rows:
        known = newest.setdefault(key(each), each)
        if order(known) < order(each):
            newest[key(each)] = each
    return newest
