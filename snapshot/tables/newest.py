"""The newest rows of a table, for readers without Spark; jobs.pipeline.newest says the same of a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Row = TypeVar("Row")
Key = TypeVar("Key", bound=Hashable)


def newest_of(
    rows: Iterable[Row], key: Callable[[Row], Key], order: Callable[[Row], tuple[object, ...]]
) -> dict[Key, Row]:
    """Return the row with the greatest order of each key; the first of equal ones."""
    newest: dict[Key, Row] = {}
    for each in rows:
        known = newest.setdefault(key(each), each)
        if order(known) < order(each):
            newest[key(each)] = each
    return newest
