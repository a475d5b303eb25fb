"""Situations: names that people type, with examples that the models answer for every era."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiersnap.snapshot.exactly_once.models.answers import Answer


@dataclass(frozen=True, slots=True)
class SituationAnswer:
    """The answer to a situation, and what is done besides."""

    answer: Answer
    does: str


@dataclass(frozen=True, slots=True)
class Situation:
    """One situation.

    Attributes:
        name: words with hyphens.
        request: the API that is asked, as Produce or InitProducerId.
        when: a clause, in words.
        ask: era -> what the model says of the example; None if an era has no such request.
    """

    name: str
    request: str
    when: str
    ask: Callable[[Any], SituationAnswer | None]
