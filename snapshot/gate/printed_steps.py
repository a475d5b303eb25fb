"""Print next steps for a *place*: a host, a fleet or a page of the report.

A printed command has the log directories, remote location and cluster of its place, with the options for access to
them. If the printed command accepts an option that the running command was given, it repeats this option. A command
without placeholders is complete.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tiersnap.snapshot.gate.next_steps import steps_of
from tiersnap.snapshot.gate.step_template import Hole, NextStep
from tiersnap.snapshot.gate.verdict import BLOCKED, SEVERITY, Verdict
from tiersnap.snapshot.units import count_of

# Options for access to a remote location. They follow its URI.
OF_LOCATION = ("--layout", "--endpoint-url", "--region", "--path-style", "--checksums")
# Options for access to a cluster.
OF_CLUSTER = ("--bootstrap-server", "--command-config")
# Commands that act on remote segments of every layout.
_OF_EACH_LAYOUT = frozenset({"maintain remove-orphans"})


@dataclass(frozen=True, slots=True)
class Step:
    """A rendered step: words, a command after the words, and a note about the command. Each of the texts may be "".

    Attributes:
        is_complete: whether the command has no placeholder.
    """

    words: str
    command: str
    is_complete: bool
    note: str = ""

    @property
    def line(self) -> str:
        """Return the step as part of a sentence. Three spaces separate the note from the command."""
        return "   ".join(filter(None, (f"{self.words} {self.command}".strip(), self.note)))

    @property
    def comments(self) -> tuple[str, ...]:
        """Return the words and the note, which are comments above the command in a script."""
        return tuple(filter(None, (self.words, self.note)))


@dataclass(frozen=True, slots=True)
class Place:
    """The values for the holes in printed commands, and the options that each printed command repeats.

    A place is a host, a fleet or a page of the report.
    """

    tier: Sequence[str | Hole] = ("run",)  # the command that tiers, with its location, without --apply
    values: Mapping[Hole, Sequence[str]] = field(default_factory=dict)
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by command: options of the running command

    def beside(self, segment_file: str) -> Place:
        """Return this place with `segment_file` as the value of Hole.SEGMENT_FILE."""
        return replace(self, values={**self.values, Hole.SEGMENT_FILE: (segment_file,)})

    def knows(self, hole: Hole) -> bool:
        """Return whether the place has a value for the hole."""
        return bool(self.values.get(hole))

    def text(self, step: NextStep) -> str:
        """Return a step as text."""
        return text([self.render(step)])

    def clears(self, problem: StrEnum) -> str:
        """Return, as text, the steps that clear the problem; "" if there are none."""
        return text(self.steps(problem))

    def steps(self, problem: StrEnum) -> tuple[Step, ...]:
        """Return the steps that clear the problem."""
        return tuple(map(self.render, steps_of(problem)))

    def render(self, step: NextStep) -> Step:
        """Return a step with all known holes filled."""
        if not step.argv:
            return Step(step.words, "", True, step.note)
        first, *rest = step.argv
        at = _options_at(rest)
        command, *head = *(self.tier if first is Hole.TIER else (first,)), *rest[:at]
        given = self._filled(str(command), head)
        own = self._filled(str(command), rest[at:])
        kept = _options_without(self.options.get(str(command), ()), {*OF_LOCATION, *given, *own})
        words = [*given, *kept, *_options_without(own, given)]
        is_complete = all(self.knows(each) for each in (*head, *rest[at:]) if isinstance(each, Hole))
        line = " ".join([str(command), shlex.join(words)]).strip()
        if not step.is_of_kafka:
            line = f"tiersnap {line}"
        return Step(step.words, line, is_complete, step.note)

    def _filled(self, command: str, words: Iterable[str | Hole]) -> list[str]:
        """Return the words, with each hole replaced by its value or placeholder."""
        filled: list[str] = []
        for each in words:
            if isinstance(each, str):
                filled.append(each)
            else:
                filled += self.values.get(each) or each.placeholder.split()
        if command in _OF_EACH_LAYOUT:
            return list(_options_without(filled, {"--layout"}))
        return filled


def _options_at(words: Sequence[str | Hole]) -> int:
    """Return the index of the first option."""
    for number, each in enumerate(words):
        shown = each.placeholder if isinstance(each, Hole) else each
        if shown.startswith("--"):
            return number
    return len(words)


def _options_without(words: Sequence[str], left_out: Iterable[str]) -> Iterator[str]:
    """Yield the words without these options and their values."""
    names = frozenset(each for each in left_out if each.startswith("--"))
    is_kept = True
    for each in words:
        if each.startswith("--"):
            is_kept = each not in names
        if is_kept:
            yield each


def text(steps: Iterable[Step]) -> str:
    """Return steps as one line of text."""
    line = ""
    for step in steps:
        if line:
            line += _between(step.line)
        line += step.line
    return line


def _between(following: str) -> str:
    if following.startswith(";"):
        return ""
    return ", " if following.startswith("or ") else " "


def commands(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the commands of the complete steps."""
    return tuple(step.command for step in steps if step.command and step.is_complete)


NEXT_STEP: dict[Verdict, str] = {verdict: Place().clears(verdict) for verdict in Verdict}
"""The steps of each verdict as text, for an unknown place."""


def next_steps(verdicts: Mapping[Verdict, int], step_of: Callable[[Verdict], str] = NEXT_STEP.__getitem__) -> list[str]:
    """Return a line for each verdict that a person must clear, the worst first.

    Args:
        verdicts: number of segments by verdict.
    """
    lines: list[str] = []
    for verdict in SEVERITY:
        count = verdicts.get(verdict)
        if count and verdict in BLOCKED:
            lines.append(f"{count_of(count, 'segment')} {verdict}: {step_of(verdict)}")
    return lines
