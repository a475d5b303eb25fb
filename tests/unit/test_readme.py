"""The examples on bundled logs print what the README and the pages about commands say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tiersnap.jobs.cli import run as tiersnap

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/guide.md", "docs/transactions.md", "docs/risk.md")
DOCS = ROOT / "docs"
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


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{each.name}" for each in sorted(DOCS.glob("*.md")))])
def test_link_of_page_leads_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(((?!http)[^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_map_of_docs_lists_each_page_once() -> None:
    listed = re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text(encoding="utf-8"))
    pages = [str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md") if "adr" not in each.parts]
    assert sorted(listed) == sorted({*pages} - {"README.md"})


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
