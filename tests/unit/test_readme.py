"""The examples on bundled logs print what the README and the pages about commands say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tiersnap.jobs.cli import run as tiersnap

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/transactions.md", "docs/risk.md")
TEXT = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"```console\n\$ tiersnap (.*)\n((?:.+\n)+?)```", TEXT)


def words(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.splitlines()}


def test_there_are_examples_to_check() -> None:
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize(("command", "output"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_an_example_prints_what_the_page_shows(
    command: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    tiersnap(shlex.split(command))
    captured = capsys.readouterr()
    assert words(output) <= words(captured.out) | words(captured.err)


def test_every_link_into_the_project_leads_somewhere() -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert all((ROOT / link).exists() for link in links)
