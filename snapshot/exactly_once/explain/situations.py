"""Situations and the rows of an explanation. Each situation has an example that the models answer for every era."""

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
    """The answer to a situation, and the effect of the answer in words."""

    answer: Answer
    does: str


Ask = Callable[[E], SituationAnswer | None]
"""A function from an era to the model's answer. It returns None if the request does not exist in the era."""


@dataclass(frozen=True, slots=True)
class ExplainedCase(Generic[E]):
    """A situation with an example."""

    name: str  # words that are joined by hyphens
    request: str  # API, such as Produce or InitProducerId
    when: str  # description of the situation
    ask: Ask[E]


def situations(request: str, example: Callable[[Row], Ask[E]], table: str) -> tuple[ExplainedCase[E], ...]:
    """Return the situations of a request. `table` has columns `name` and `when`, and columns that `example` reads."""
    return tuple(ExplainedCase(row["name"], request, row["when"], example(row)) for row in read_table(table))


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """An answer or a reaction in a range of releases (`explain WORD`)."""

    who: Annotated[str, Meta(description="broker, coordinator, client or application")]
    releases: str  # releases with this answer or reaction, as one range
    changed_by: Annotated[str, Meta(description="KIPs or issues that introduced the answer or reaction")]
    transaction_version: int | None  # transaction.version of a coordinator, 1 also for 0; None for others
    request: str
    # None for clients and the application.
    situation: Annotated[str | None, Meta(description="name that `explain` takes")]
    when: str  # description of the situation, or the condition of a client's reaction
    answer: Answer | None  # answer of a broker or coordinator, or the error that a client receives
    does: str  # effect of the answer, or the reaction of a client
    severity: Severity | None = None  # severity of a client's reaction


@dataclass(frozen=True, slots=True)
class EraRange:
    """Neighbouring eras with the same answer."""

    eras: tuple[Era, ...]
    releases: str

    def has(self, release: str | None, all_eras: Sequence[Era]) -> bool:
        """Return whether a release is in this range. If `release` is None, return True."""
        return release is None or era_of(release, all_eras) in self.eras


def runs(eras: Sequence[E], says: Callable[[E], W]) -> Iterator[tuple[EraRange, W]]:
    """Yield ranges of neighbouring eras with the same answer, in the order of releases."""
    for said, group in groupby(((era, says(era)) for era in eras), key=lambda pair: pair[1]):
        chosen = tuple(era for era, _ in group)
        yield EraRange(chosen, releases_of(chosen, eras)), said
