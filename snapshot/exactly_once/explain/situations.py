"""Situations, with examples that the models answer for every era, and rows that explain one or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Generic, TypeVar

from msgspec import Meta

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import Row, read_table
from tiersnap.snapshot.exactly_once.models.eras import Era, Severity, era_of, releases_of

E = TypeVar("E", bound=Era)
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class SituationAnswer:
    """The answer to a situation, and what is done besides."""

    answer: Answer
    does: str


Ask = Callable[[E], SituationAnswer | None]
"""Era -> what the model says of an example; None if an era has no such request."""


@dataclass(frozen=True, slots=True)
class ExplainedCase(Generic[E]):
    """One situation."""

    name: str  # words with hyphens
    request: str  # the API that is asked, as Produce or InitProducerId
    when: str  # a clause, in words
    ask: Ask[E]


def situations(request: str, example: Callable[[Row], Ask[E]], table: str) -> tuple[ExplainedCase[E], ...]:
    """Return the situations of a request: rows with `name`, `when` and what `example` makes its example of."""
    return tuple(ExplainedCase(row["name"], request, row["when"], example(row)) for row in read_table(table))


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """An answer or a reaction in some releases (`explain WORD`)."""

    who: Annotated[str, Meta(description="broker, coordinator, client or application")]
    releases: str  # that say or do so, as one range
    changed_by: Annotated[str, Meta(description="KIPs or issues that made it so in the first of the releases")]
    transaction_version: int | None  # of a coordinator, 1 for 0 and 1; None if it says nothing
    request: str
    # Of a broker or a coordinator.
    situation: Annotated[str | None, Meta(description="name that `explain` takes")]
    when: str  # the situation, or the condition of a client, in words
    answer: Answer | None  # of a broker or a coordinator, or the error that a client gets
    does: str  # what it does besides, or what a client does
    severity: Severity | None = None  # of a client's reaction


@dataclass(frozen=True, slots=True)
class EraRange:
    """Neighbouring eras that say the same."""

    eras: tuple[Era, ...]
    releases: str

    def has(self, release: str | None, all_eras: Sequence[Era]) -> bool:
        """Return whether the release is one of them; None is any."""
        return release is None or era_of(release, all_eras) in self.eras


def runs(eras: Sequence[E], says: Callable[[E], W]) -> Iterator[tuple[EraRange, W]]:
    """Group neighbouring eras that answer alike, in the order of releases."""
    for said, group in groupby(((era, says(era)) for era in eras), key=lambda pair: pair[1]):
        chosen = tuple(era for era, _ in group)
        yield EraRange(chosen, releases_of(chosen, eras)), said
