"""Colour says the severity of verdicts on a terminal, and nowhere else."""

from __future__ import annotations

import io
import json
import os
import re

import pytest

from tests.reference.command import tiersnap
from tests.reference.recovered import DATA
from tiersnap.jobs.cli.colour import Color, coloured
from tiersnap.snapshot.gate.verdict import LEVEL, Level, Verdict

pytestmark = pytest.mark.unit

ANSI = re.compile("\x1b\\[[0-9;]*m")
LOGS = DATA / "ledger-2.7.2" / "logs"


@pytest.fixture
def terminal() -> io.TextIOBase:
    _, side = os.openpty()
    with os.fdopen(side, "w") as stream:
        yield stream


def test_auto_is_colour_on_a_terminal_without_no_color(terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Color.AUTO.is_used(terminal)
    assert not Color.AUTO.is_used(io.StringIO()), "a pipe"
    monkeypatch.setenv("TERM", "dumb")
    assert not Color.AUTO.is_used(terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Color.AUTO.is_used(terminal)
    assert Color.ALWAYS.is_used(io.StringIO())
    assert not Color.NEVER.is_used(terminal)


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_that_a_person_must_clear_is_red_as_a_whole_word(verdict: Verdict) -> None:
    text = coloured(f"4 {verdict}, x{verdict}")
    assert ANSI.sub("", text) == f"4 {verdict}, x{verdict}"
    assert text.startswith(f"4 \x1b[31m{verdict}\x1b[0m") == (LEVEL[verdict] is Level.BLOCKED)
    assert text.endswith(f", x{verdict}"), "not inside another word"


@pytest.mark.parametrize("place", ["before", "after"])
def test_colour_changes_nothing_but_the_colour_of_a_table(place: str) -> None:
    always, words = ("--color", "always"), ("scan", str(LOGS))
    plain = tiersnap(*words, output="table")
    typed = (*always, *words) if place == "before" else (*words, *always)
    ran = tiersnap(*typed, output="table")
    assert (ran.exit_code, ANSI.sub("", ran.out), ANSI.sub("", ran.err)) == (plain.exit_code, plain.out, plain.err)
    assert ran.out != plain.out
    assert not ANSI.search(plain.out)


def test_json_has_no_colour() -> None:
    found = tiersnap("scan", str(LOGS), "--color", "always").out
    assert json.loads(found)["command"] == "scan"
    assert not ANSI.search(found)


def test_quiet_is_taken_before_and_after_the_command() -> None:
    before, after = tiersnap("-q", "scan", str(LOGS)), tiersnap("scan", str(LOGS), "-q")
    assert (before.err, before.out) == (after.err, after.out)
    assert len(after.err) < len(tiersnap("scan", str(LOGS)).err)
