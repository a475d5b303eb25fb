"""docs/runbook.md has an entry for everything that can be said, and its commands are ones that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reference.command_lines import commands_in, parse, words_of
from tiersnap.remote_storage.restore.outcomes import InstallOutcome
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.readiness.verdict import NEXT_STEP, Verdict
from tiersnap.snapshot.repair.repair_action import RepairAction
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "runbook.md").read_text(encoding="utf-8")
PARTS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def entries(part: str) -> dict[str, str]:
    """Entries of a part by heading."""
    return dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", PARTS[part], re.MULTILINE | re.DOTALL))


EXPECTED = {
    "Verdicts of segments": [str(each) for each in Verdict],
    "Verdicts of snapshots": [str(each) for each in SnapshotVerdict],
    "Findings": [str(each) for each in FindingKind],
    "Exit codes": [f"{code.value}: {code.name}" for code in ExitCode],
}


@pytest.mark.parametrize("part", EXPECTED)
def test_there_is_an_entry_for_each_and_for_nothing_else(part: str) -> None:
    named = [heading.removesuffix(" (the finding)") for heading in entries(part)]
    assert sorted(named) == sorted(EXPECTED[part])


def test_every_action_has_a_row_in_the_runbook() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", PARTS["Actions of `repair` and `install`"], re.MULTILINE)
    assert sorted(rows) == sorted({*map(str, RepairAction), *map(str, InstallOutcome)})


def test_verdicts_stand_in_the_order_in_which_they_apply() -> None:
    assert list(entries("Verdicts of segments")) == EXPECTED["Verdicts of segments"]


@pytest.mark.parametrize("part", EXPECTED)
def test_an_entry_says_what_it_means_how_dangerous_it_is_what_to_do_and_how_to_see_that_it_worked(part: str) -> None:
    for heading, text in entries(part).items():
        labels = re.findall(r"^- \*\*(\w+):\*\*", text, re.MULTILINE)
        assert labels == ["Means", "Danger", "Do", "Verify"], heading
        assert re.search(r"\*\*Danger:\*\* (none|low|high|that of)", text), heading


def test_a_verdict_that_has_a_next_step_has_one_in_the_runbook() -> None:
    for verdict, step in NEXT_STEP.items():
        text = entries("Verdicts of segments")[verdict]
        done = text.partition("**Do:**")[2].partition("- **Verify:**")[0].strip()
        if step:
            assert not done.startswith("nothing"), verdict


@pytest.mark.parametrize("command", sorted(set(commands_in(TEXT))))
def test_the_real_command_takes_every_word(command: str) -> None:
    words = words_of(command)
    assert words
    parse(words)


def test_there_are_commands_to_check_and_links_lead_somewhere() -> None:
    assert len(set(commands_in(TEXT))) > 20
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings}
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        path, _, anchor = link.partition("#")
        assert not path or (DOCS / path).exists(), link
        assert not anchor or path or anchor in anchors, link
