"""Eras: releases of Kafka that answer, or react, alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Era:
    """Releases that are alike.

    Attributes:
        name: column of the decision tables.
        first: the first release, as numbers.
        releases: as people say it.
        changed_by: the KIPs and issues that made it another era.
    """

    name: str
    first: tuple[int, ...]
    releases: str
    changed_by: str


E = TypeVar("E", bound=Era)


def era_of(release: str, eras: Sequence[E]) -> E:
    """Return the era of a release such as `3.9` or `3.9.1`.

    Raises:
        ValueError: it is no release, or one from before the first era.
    """
    try:
        numbers = tuple(int(part) for part in release.split("."))
    except ValueError as error:
        raise ValueError(f"{release!r} is no release of Kafka; use 3.9 or 3.9.1") from error
    fitting = [era for era in eras if era.first <= numbers]
    if not fitting:
        raise ValueError(f"{release!r} has no idempotent producers: they came with 0.11")
    return fitting[-1]


def releases_of(eras: Iterable[Era], all_eras: Sequence[Era]) -> str:
    """Name several eras: neighbours as one range, `1.0.0-2.4, 4.1-4.4`."""
    chosen = {era.name for era in eras}
    ranges: list[list[Era]] = []
    is_after_chosen = False
    for era in all_eras:
        if era.name in chosen:
            if is_after_chosen:
                ranges[-1].append(era)
            else:
                ranges.append([era])
        is_after_chosen = era.name in chosen
    return ", ".join(_range(each) for each in ranges)


def _range(eras: Sequence[Era]) -> str:
    if len(eras) == 1:
        return eras[0].releases
    return f"{eras[0].releases.split('-')[0]}-{eras[-1].releases.split('-')[-1]}"
