"""Rows that explain an error or a situation: who answers or does what, in which releases, and what changed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from tiersnap.snapshot.exactly_once.explain.coordinator_situations import OF_COORDINATORS
from tiersnap.snapshot.exactly_once.explain.partition_situations import OF_PARTITIONS
from tiersnap.snapshot.exactly_once.explain.situations import Situation, SituationAnswer
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import COORDINATOR_ERAS
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, Era, era_of, releases_of

SITUATIONS = (*OF_PARTITIONS, *OF_COORDINATORS)
E = TypeVar("E", bound=Era)
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Explained:
    """One row.

    Attributes:
        who: broker, coordinator, client or application.
        releases: that say or do so, as one range.
        changed_by: what made it so in the first of them.
        transaction_version: of a coordinator, 1 for 0 and 1; None if it says nothing.
        situation: its name, of a broker or a coordinator.
        when: the situation, or the condition of a client, in words.
        answer: of a broker or a coordinator, or the error that a client gets.
        does: what it does besides, or what a client does.
        severity: of a client's reaction.
    """

    who: str
    releases: str
    changed_by: str
    transaction_version: int | None
    request: str
    situation: str | None
    when: str
    answer: Answer | None
    does: str
    severity: str | None = None


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


def of_situation(situation: Situation, release: str | None) -> Iterator[Explained]:
    """Return the answers of brokers or coordinators, a row each; those of one release if it is given."""
    if situation in OF_PARTITIONS:
        yield from _answers("broker", None, situation, BROKER_ERAS, release)
        return
    for version in (1, 2):
        eras = [era for era in COORDINATOR_ERAS if era.transaction_version == version]
        yield from _answers("coordinator", version, situation, eras, release)


def _answers(
    who: str, version: int | None, situation: Situation, eras: Sequence[E], release: str | None
) -> Iterator[Explained]:
    if release is not None and not _has_era(release, eras):
        return
    for run, said in runs(eras, situation.ask):
        if said is not None and run.has(release, eras):
            yield _row(who, version, situation, run, said)


def _has_era(release: str, eras: Sequence[Era]) -> bool:
    try:
        era_of(release, eras)
    except ValueError:
        return False
    return True


def _row(who: str, version: int | None, situation: Situation, run: EraRange, said: SituationAnswer) -> Explained:
    return Explained(
        who,
        run.releases,
        run.eras[0].changed_by,
        version,
        situation.request,
        situation.name,
        situation.when,
        said.answer,
        said.does,
    )


def answered_with(error: Answer, release: str | None) -> list[Explained]:
    """Return the situations that are answered with an error."""
    return [row for each in SITUATIONS for row in of_situation(each, release) if row.answer is error]
