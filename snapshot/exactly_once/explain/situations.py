"""Situations with examples, which the models answer for every era, and the rows of an explanation."""

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
    """The answer to a situation, and the further effect."""

    answer: Answer
    does: str


Ask = Callable[[E], SituationAnswer | None]
"""Takes an era, and returns the model's answer to an example; None if the request does not exist in the era."""


@dataclass(frozen=True, slots=True)
class ExplainedCase(Generic[E]):
    """One situation."""

    name: str  # words with hyphens
    request: str  # the API, as Produce or InitProducerId
    when: str  # a clause, in words
    ask: Ask[E]


def situations(request: str, example: Callable[[Row], Ask[E]], table: str) -> tuple[ExplainedCase[E], ...]:
    """Return the situations of a request, from a table with the columns `name`, `when` and those of `example`."""
    return tuple(ExplainedCase(row["name"], request, row["when"], example(row)) for row in read_table(table))


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """An answer or a reaction in some releases (`explain WORD`)."""

    who: Annotated[str, Meta(description="broker, coordinator, client or application")]
    releases: str  # with this answer or reaction, as one range
    changed_by: Annotated[str, Meta(description="KIPs or issues that made it so in the first of the releases")]
    transaction_version: int | None  # of a coordinator, where 1 stands for 0 and 1; None for others
    request: str
    # Of a broker or a coordinator.
    situation: Annotated[str | None, Meta(description="name that `explain` takes")]
    when: str  # the situation, or the condition of a client, in words
    answer: Answer | None  # of a broker or a coordinator, or the error that a client gets
    does: str  # the further effect, or the reaction of a client
    severity: Severity | None = None  # of a client's reaction


@dataclass(frozen=True, slots=True)
class EraRange:
    """Neighbouring eras with the same answer."""

    eras: tuple[Era, ...]
    releases: str

    def has(self, release: str | None, all_eras: Sequence[Era]) -> bool:
        """Return whether the release belongs to the eras; None belongs to all."""
        return release is None or era_of(release, all_eras) in self.eras


def runs(eras: Sequence[E], says: Callable[[E], W]) -> Iterator[tuple[EraRange, W]]:
    """Yield neighbouring eras with the same answer together, in the order of releases."""
    for said, group in groupby(((era, says(era)) for era in eras), key=lambda pair: pair[1]):
        chosen = tuple(era for era, _ in group)
        yield EraRange(chosen, releases_of(chosen, eras)), said
