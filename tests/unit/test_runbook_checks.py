"""The commands that docs/runbook.md says to check with, typed where what was to be done is done: each ends with 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.protocol.situations import found
from tests.reference.command import tiersnap
from tests.reference.command_lines import words_of
from tests.reference.situations import NOW, SITUATIONS, Site
from tests.reference.small_log import file_of, write_small_log
from tests.unit.test_exit_codes import PAGE
from tests.unit.test_runbook import EXPECTED, PARTS, TEXT, entries
from tiersnap.snapshot.readiness.verdict import Verdict

pytestmark = pytest.mark.unit


_TYPED = re.compile(r"`(?:sudo -u \S+ )?(tiersnap [^`]+)`")
# A check without a command: of what is no trouble, and of exit codes, where any command may be meant.
WITHOUT_COMMAND = {"nothing to check.", "another exit code.", "exit code 0."}


def texts() -> Iterator[tuple[str, str, str]]:
    """Each heading, what stands before its check, and the check on one line."""
    for part in EXPECTED:
        for heading, text in entries(part).items():
            done, _, check = text.partition("- **Verify:**")
            yield heading, done.partition("**Do:**")[2], " ".join(check.split())
    for part, text in PARTS.items():
        for check in re.findall(r"^\d+\. Verify: ((?:.|\n(?! *\d+\.|\n))+)", text, re.MULTILINE):
            yield part, text, " ".join(check.split())


def checks() -> Iterator[tuple[str, str]]:
    """Each heading and a command of its check; of one that says `the same command` the last of what to do."""
    for heading, done, check in texts():
        typed = _TYPED.findall(check)
        if "the same command" in check:
            typed += _TYPED.findall(" ".join(done.split()))[-1:]
        yield from ((heading, each) for each in typed)


def test_each_check_names_a_command_or_says_that_there_is_none() -> None:
    typed = {heading for heading, _ in checks()}
    assert {check for heading, _, check in texts() if heading not in typed} == WITHOUT_COMMAND
    assert "A full disk" in typed
    written = re.findall(r"^(?:- \*\*|\d+\. )Verify:", TEXT, re.MULTILINE)
    assert len(written) == len(list(texts())) > 60, "a check below a heading that no test knows"


COMMANDS = sorted({command for _, command in checks() if "--bootstrap-server" not in command})
OF_CLUSTERS = sorted({command for _, command in checks()} - {*COMMANDS})
# Headings whose trouble docs/exit-codes.md has a row for.
TROUBLED = {
    "TOPIC_ID_UNKNOWN": "no topic id",
    "CORRUPT_SEGMENT": "damaged segment",
    "ABOVE_LSO": "hanging transaction",
    "MISSING_INDEX": "lost index",
    "MISSING_SNAPSHOT": "missing snapshot",
    "CORRUPT_SNAPSHOT": "corrupt snapshot",
    "SUSPECT_SNAPSHOT": "suspect snapshot",
    "SUSPECT": "suspect snapshot",
    "CORRUPT": "corrupt snapshot",
    "MISSING": "missing snapshot",
    "BAD_CRC": "damaged segment",
    "CORRUPT_CHECKPOINT": "garbled checkpoint",
    "MISSING_CHECKPOINT": "missing checkpoint",
    "CORRUPT_SNAPSHOT (the finding)": "corrupt snapshot",
    "UNFINISHED_SWAP": "killed cleaner",
    "A full disk": "full disk",
}
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
    ran = tiersnap(*words, *(() if words[0] in ("doctor", "expire") else NOW))
    assert ran.exit_code == 0, ran.err
    assert not WAITING & set(re.findall(r"\w+", ran.out + ran.err)), "`shows another verdict`"


@pytest.mark.parametrize("command", OF_CLUSTERS)
def test_check_ends_with_0_over_a_cluster_where_it_comes_true(command: str, tmp_path: Path) -> None:
    with found("published", tmp_path) as place:
        places = {"s3://bucket/tiers": place.remote}
        assert place.run(*(places.get(word, word) for word in words_of(command) or [])) == 0


@pytest.mark.parametrize("heading", TROUBLED)
def test_check_ends_otherwise_where_the_trouble_is(heading: str) -> None:
    names, _, *rows = (line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("|"))
    (row,) = (each for each in rows if each[0].strip() == TROUBLED[heading])
    codes = {name.strip(): code.strip() for name, code in zip(names, row, strict=True)}
    typed = (words_of(command) or [] for each, command in checks() if each == heading)
    told = {codes[words[1] if words[0] == "transactions" else words[0]] for words in typed}
    assert told - {"0"}, "the check is blind to it"


def test_stuck_partition_is_free_after_the_steps_whose_output_is_shown(tmp_path: Path) -> None:
    file_of(write_small_log(tmp_path), 10, ".snapshot").unlink()
    steps = re.findall(r'`(tiersnap [^`]+)` -> "([^"]+)", exit code (\d)', PARTS["A stuck partition"])
    assert len(steps) == 3
    for command, says, code in steps:
        ran = tiersnap(*(tmp_path if word == "LOGDIR" else word for word in words_of(command) or []), output="table")
        assert (ran.exit_code, says in ran.out + ran.err) == (int(code), True), ran.err
    assert tiersnap("doctor", tmp_path).exit_code == tiersnap("scan", tmp_path).exit_code == 0


def test_what_says_already_tiered_says_so(mended: Site) -> None:
    commands = {_TYPED.findall(check)[0] for _, _, check in texts() if "says ALREADY_TIERED" in check}
    assert commands == {"tiersnap tier LOGDIR --remote s3://bucket/tiers"}
    ran = tiersnap("tier", *mended.log_dirs, "--remote", mended.remote, *NOW)
    assert {name for row in ran.rows for name in row["verdicts"]} == {"ALREADY_TIERED", "ACTIVE_SEGMENT"}
