"""docs/runbook.md has an entry for each symptom and a row for everything that can be said; its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reference.command_lines import commands_in, parse, words_of
from tiersnap.remote_storage.restore.install_outcome import InstallOutcome
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.repair.repair_action import RepairAction

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "runbook.md").read_text(encoding="utf-8")
PARTS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
# Entries by symptom: the parts between the list of symptoms and what is to be known before.
_TITLES = list(PARTS)
ENTRIES = {title: PARTS[title] for title in _TITLES[1 : _TITLES.index("Before you type")]}
EXPECTED = {
    "Verdicts of segments": [str(each) for each in Verdict],
    "Verdicts of snapshots": [str(each) for each in SnapshotVerdict],
    "Findings": [str(each) for each in FindingKind],
    "Exit codes": [f"{code.value}: {code.name}" for code in ExitCode],
}


def rows(part: str) -> dict[str, list[str]]:
    """Cells behind the first of each row of a part's first table, by that first cell."""
    _, _, *lines = re.findall(r"^\| (.+) \|$", PARTS[part], re.MULTILINE)
    return {name: cells for name, *cells in (line.split(" | ") for line in lines)}


@pytest.mark.parametrize("part", EXPECTED)
def test_table_has_a_row_for_each_and_for_nothing_else(part: str) -> None:
    assert sorted(rows(part)) == sorted(EXPECTED[part])


@pytest.mark.parametrize("part", EXPECTED)
def test_row_says_what_it_means_how_dangerous_it_is_and_what_to_do(part: str) -> None:
    for name, (means, danger, done) in rows(part).items():
        assert means, name
        assert re.match(r"none|low|high|that of", danger), name
        assert done, name


def test_every_action_has_a_row_in_the_runbook() -> None:
    found = [name.strip("`") for name in rows("Actions of `repair` and `install`")]
    assert sorted(found) == sorted({*map(str, RepairAction), *map(str, InstallOutcome)})


def test_verdicts_stand_in_the_order_in_which_they_apply() -> None:
    assert list(rows("Verdicts of segments")) == EXPECTED["Verdicts of segments"]


def test_a_verdict_that_has_a_next_step_has_one_in_the_runbook() -> None:
    for verdict, step in NEXT_STEP.items():
        *_, done = rows("Verdicts of segments")[verdict]
        assert not step or not done.startswith("nothing"), verdict


@pytest.mark.parametrize("title", ENTRIES)
def test_entry_has_symptom_danger_and_steps_in_order(title: str) -> None:
    text = ENTRIES[title]
    assert re.match(r"\n\*\*Symptom:\*\* .+?\n\n\*\*Danger:\*\* (none|low|high)", text, re.DOTALL)
    kinds = " ".join(re.findall(r"^\d+\. (Check|Do|Verify)\b", text, re.MULTILINE))
    assert re.fullmatch(r"(Check )+((Do )+Verify ?)+", kinds), kinds
    assert f"](#{_anchor(title)})" in PARTS["What you see"]


@pytest.mark.parametrize("command", sorted(set(commands_in(TEXT))))
def test_the_real_command_takes_every_word(command: str) -> None:
    words = words_of(command)
    assert words
    parse(words)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def test_there_are_commands_to_check_and_links_lead_somewhere() -> None:
    assert len(set(commands_in(TEXT))) > 20
    anchors = set(map(_anchor, re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)))
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        path, _, anchor = link.partition("#")
        assert not path or (DOCS / path).exists(), link
        assert not anchor or path or anchor in anchors, link
    for page in DOCS.rglob("*.md"):
        for anchor in re.findall(r"runbook\.md#([\w-]+)\)", page.read_text(encoding="utf-8")):
            assert anchor in anchors, page
