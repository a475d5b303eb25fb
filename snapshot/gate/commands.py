"""Print next steps for a place: a host, a fleet or a page.

A printed command names the place and carries the options that the running command was given and that it has as well.
It is complete if nothing is left to fill in.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiersnap.snapshot.gate.next_step import STEPS, Hole, NextStep
from tiersnap.snapshot.gate.verdict import BLOCKED, SEVERITY, Verdict
from tiersnap.snapshot.units import count_of

# Options of a command that names remote storage, and of no other.
OF_PLACE = frozenset({"--layout", "--endpoint-url", "--region", "--path-style", "--checksums"})


@dataclass(frozen=True, slots=True)
class Step:
    """Words and the command that follows them; either may be "".

    Attributes:
        is_complete: no placeholder is left in the command.
    """

    words: str
    command: str
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Place:
    """The values of the holes, and the options of each command."""

    tier: Sequence[str | Hole] = ("run",)  # the command that tiers, with its location, without --apply
    values: Mapping[Hole, Sequence[str]] = field(default_factory=dict)
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)  # words that were given, by command

    def beside(self, segment_file: str) -> Place:
        """Return the place of one segment."""
        return replace(self, values={**self.values, Hole.SEGMENT_FILE: (segment_file,)})

    def text(self, step: NextStep) -> str:
        """Return one step as text."""
        return text([self.render(step)])

    def clears(self, verdict: Verdict) -> str:
        """Return the steps that clear the verdict as text, "" without one."""
        return text(self.steps(verdict))

    def steps(self, verdict: Verdict) -> tuple[Step, ...]:
        """Return the steps that clear the verdict."""
        return tuple(map(self.render, STEPS.get(verdict, ())))

    def render(self, step: NextStep) -> Step:
        """Return a step with as much filled in as is known."""
        if not step.argv:
            return Step(step.words, "", True)
        first, *rest = step.argv
        words = [*(self.tier if first is Hole.TIER else [first]), *rest[: _options_at(rest)]]
        added = [*self._kept(words, rest), *_new_options(rest[_options_at(rest) :], words)]
        filled = [shown for each in (*words, *added) for shown in self._shown(each)]
        is_complete = all(isinstance(each, str) or self.values.get(each) for each in (*words, *added))
        return Step(step.words, " ".join(["tiersnap", *filled]), is_complete)

    def _kept(self, words: Sequence[str | Hole], rest: Sequence[str | Hole]) -> Iterator[str]:
        """Yield the options that were given, unless the command names them or names no remote storage."""
        given = {*words, *rest}
        for option, *values in _grouped(self.options.get(str(words[0]), ())):
            if option not in given and (option not in OF_PLACE or "--remote" in given):
                yield from (str(each) for each in (option, *values))

    def _shown(self, word: str | Hole) -> Iterator[str]:
        if isinstance(word, Hole):
            yield from map(shlex.quote, self.values.get(word, ())) if self.values.get(word) else [word.placeholder]
        else:
            yield word if word == "transactions find-hanging" else shlex.quote(word)


def _options_at(words: Sequence[str | Hole]) -> int:
    """Return the index of the first option."""
    found = (number for number, each in enumerate(words) if isinstance(each, str) and each.startswith("--"))
    return next(found, len(words))


def _new_options(options: Sequence[str | Hole], words: Sequence[str | Hole]) -> Iterator[str | Hole]:
    """Yield the options that are not among the words, with their values."""
    for option, *values in _grouped(options):
        if option not in words:
            yield from (option, *values)


def _grouped(words: Sequence[str | Hole]) -> Iterator[list[str | Hole]]:
    """Yield each option with its values."""
    group: list[str | Hole] = []
    for each in words:
        if group and isinstance(each, str) and each.startswith("--"):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def text(steps: Iterable[Step]) -> str:
    """Return steps as one line."""
    line = ""
    for step in steps:
        part = f"{step.words} {step.command}".strip()
        between = ", " if part.startswith("or ") else " "
        line = f"{line}{between}{part}" if line else part
    return line


def commands(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the commands of steps that are complete."""
    return tuple(step.command for step in steps if step.command and step.is_complete)


NEXT_STEP: dict[Verdict, str] = {verdict: Place().clears(verdict) for verdict in Verdict}
"""The steps of each verdict for a reader whose place is unknown."""


def next_steps(verdicts: Mapping[Verdict, int], step_of: Callable[[Verdict], str] = NEXT_STEP.__getitem__) -> list[str]:
    """Return a line for each verdict that a person must clear, the worst first."""
    waiting = [each for each in SEVERITY if each in BLOCKED and verdicts.get(each)]
    return [f"{count_of(verdicts[each], 'segment')} {each}: {step_of(each)}" for each in waiting]
