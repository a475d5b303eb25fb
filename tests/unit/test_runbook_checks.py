"""The commands that docs/runbook.md says to check with, typed where what was to be done is done: each ends with 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.command_lines import words_of
from tests.reference.situations import NOW, SITUATIONS, Site
from tests.unit.test_runbook import EXPECTED, entries
from tiersnap.snapshot.readiness.judge import Verdict

pytestmark = pytest.mark.unit


def checks() -> Iterator[tuple[str, str]]:
    """Each entry and a command of its check; of one that says `the same command` the last of what to do."""
    for part in EXPECTED:
        for heading, text in entries(part).items():
            done, _, check = text.partition("- **Check:**")
            typed = re.findall(r"`(tiersnap [^`]+)`", check.replace("\n", " "))
            if "the same command" in check:
                typed += re.findall(r"`(tiersnap [^`]+)`", done.partition("**Do:**")[2].replace("\n", " "))[-1:]
            yield from ((heading, " ".join(each.split())) for each in typed)


COMMANDS = sorted({command for _, command in checks() if "--bootstrap-server" not in command})
WAITING = {str(each) for each in Verdict} - {"ALREADY_TIERED", "READY", "ACTIVE_SEGMENT"}


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Right snapshots, whole files, all closed segments tiered, nothing hangs."""
    with ExitStack() as stack:
        yield stack.enter_context(SITUATIONS["tiered"](tmp_path_factory.mktemp("mended")))


@pytest.mark.parametrize("command", COMMANDS)
def test_check_ends_with_0_where_it_comes_true(command: str, mended: Site) -> None:
    places = {"LOGDIR": mended.log_dirs, "s3://bucket/tiers": (mended.remote,)}
    words: list[str | Path] = []
    for word in words_of(command) or []:
        words += places.get(word, () if word == "LOGDIR2" else (word,))
    ran = tiersnap(*words, *(() if words[0] == "expire" else NOW))
    assert ran.exit_code == 0, ran.err
    assert not WAITING & set(re.findall(r"\w+", ran.out + ran.err)), "`shows another verdict`"


def test_what_says_already_tiered_says_so(mended: Site) -> None:
    headings = {heading for heading, command in checks() if command.startswith("tiersnap tier ")}
    assert headings == {"COPY_IN_FLIGHT", "READY", "LEFT_TO_BROKER", "ENCRYPTED_REMOTE"}
    ran = tiersnap("tier", *mended.log_dirs, "--remote", mended.remote, *NOW)
    assert {name for row in ran.rows for name in row["verdicts"]} == {"ALREADY_TIERED", "ACTIVE_SEGMENT"}
