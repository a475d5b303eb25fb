"""The next steps of `doctor` in JSON, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def lines_of(steps: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the words, the note and the command of each step, as `doctor` prints them."""
    return [each[name] for each in steps for name in ("words", "note", "command") if each[name]]


def commands_of(steps: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the commands of the steps."""
    return [each["command"] for each in steps if each["command"]]
