"""docs/kips.md: each command typed and its output compared; `tiersnap explain KIP-360` prints the entry."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.typed_page import ROOT, commands_of, shows, type_in

pytestmark = pytest.mark.unit

PAGE = ROOT / "docs/kips.md"
TEXT = PAGE.read_text(encoding="utf-8")
KIPS = ("KIP-360", "KIP-691", "KIP-952")


def entry_of(kip: str) -> str:
    (found,) = re.findall(rf"^## {kip}: .+\n((?:(?!## ).*\n)*)", TEXT, re.MULTILINE)
    return found


def test_each_command_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    typed = 0
    for command in commands_of(PAGE):
        printed = type_in(tmp_path, command)
        assert shows(command.shown, printed), (command.words, printed)
        typed += 1
    assert typed == TEXT.count("\n$ ")
    # What the page says of --output json.
    without = tiersnap("simulate", "--risk", "without", "--topic", "tv2", *PAST)
    assert [row["bounded_mismatches"] for row in without.rows] == [{"OPEN_TXN_OLDER": 1}]


PAST = ("--producer-expiration", "100s", "--now", "2026-11-21T12:45:00Z")


@pytest.mark.parametrize("kip", KIPS)
def test_each_problem_has_a_paragraph_a_command_and_its_output(kip: str) -> None:
    _, *problems = entry_of(kip).split("\n### ")
    assert len(problems) >= 4
    for problem in problems:
        _, paragraph, *_ = problem.split("\n\n")
        assert paragraph[0].isupper()
        assert re.search(r"^\$ tiersnap .+\n[^$`]", problem, re.MULTILINE), problem


@pytest.mark.parametrize("kip", KIPS)
def test_explain_prints_the_entry_of_the_page(kip: str) -> None:
    ran = tiersnap("explain", kip.lower(), output="table")
    assert ran.exit_code == 0
    assert ran.out.startswith(f"{kip}: ")
    shown = "".join(re.findall(r"```console\n(.*?)```", entry_of(kip), re.DOTALL))
    assert set(shown.splitlines()) <= {line.removeprefix("    ") for line in ran.out.splitlines()}
    assert not re.search(r"[`*]{2}|^#|\]\(", ran.out, re.MULTILINE)
    _, printed = ran.out.split("\n", 1)
    entry = re.sub(r"```console|\]\(.+?\)", "", entry_of(kip))
    assert re.findall(r"\w+", printed) == re.findall(r"\w+", entry), "every word, in order"


def test_explain_gives_the_entry_as_markdown_in_json() -> None:
    (row,) = json.loads(tiersnap("explain", "KIP-952").out)["result"]["rows"]
    assert row["kip"] == "KIP-952"
    assert row["text"] == entry_of("KIP-952").strip()


def test_explain_lists_the_proposals_and_knows_no_others() -> None:
    listed = {row["name"] for row in json.loads(tiersnap("explain").out)["result"]["rows"]}
    assert set(KIPS) <= listed
    assert_said(tiersnap("explain", "KIP-890"), 2, "KIP-890")


def test_the_package_holds_the_page() -> None:
    assert (ROOT / "src/tiersnap/kips.md").read_text(encoding="utf-8") == TEXT
