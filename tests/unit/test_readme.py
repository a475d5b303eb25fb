"""The examples on bundled logs print what the README and the pages about commands say."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.reference.typed_page import OMITTED
from tiersnap.jobs.main import run as tiersnap

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/models.md", "docs/transactions.md", "docs/risk.md")
DOCS = ROOT / "docs"
TEXT = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"```console\n\$ tiersnap (.*)\n((?:.+\n)+?)```", TEXT)


def words(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.splitlines()} - {OMITTED}


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


def test_first_repair_of_the_readme_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```console\n(\$ cp -r .*?)```", TEXT, re.DOTALL)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    for typed, output in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
        program, *arguments = shlex.split(typed)
        if program == "cp":
            subprocess.run([program, *arguments], check=True)
            continue
        assert tiersnap(arguments) == 0
        captured = capsys.readouterr()
        assert words(output) <= words(captured.out) | words(captured.err)


def anchors_of(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", ["README.md", *(str(each.relative_to(ROOT)) for each in sorted(DOCS.rglob("*.md")))])
def test_link_of_page_leads_somewhere(page: str) -> None:
    path = ROOT / page
    lost = []
    for link in re.findall(r"\]\(((?!http)[^)]+)\)", path.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            lost.append(link)
    assert lost == []


def uneven_rows(page: Path) -> list[str]:
    """Return the rows of tables that have other columns than their heading, or words behind the last bar."""
    found = []
    columns = 0
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        bars = len(re.findall(r"(?<!\\)\|", line))
        columns = columns or bars
        if bars != columns or not line.endswith("|"):
            found.append(f"{page.name}: {line}")
    return found


def test_each_row_of_a_table_has_the_columns_of_its_heading() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    assert [row for page in pages for row in uneven_rows(page)] == []


def test_map_of_docs_lists_each_page_once() -> None:
    listed = re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text(encoding="utf-8"))
    pages = [str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md") if "adr" not in each.parts]
    assert sorted(listed) == sorted({*pages} - {"README.md"})


def test_each_decision_has_a_number_of_its_own() -> None:
    pages = sorted((DOCS / "contributing/adr").glob("*.md"))
    headings = [re.match(r"# 0*(\d+)[.:] ", each.read_text(encoding="utf-8")) for each in pages]
    numbers = [int(each.name.partition("-")[0]) for each in pages]
    assert [int(each[1]) for each in headings if each] == numbers
    assert numbers == list(range(1, len(pages) + 1))


def test_host_section_begins_with_the_one_file_and_names_sizes_and_times() -> None:
    (section,) = re.findall(r"^## On a broker host.*\n((?:(?!## ).*\n)*)", TEXT, re.MULTILINE)
    assert section.lstrip().startswith("Copy one file to the host.")
    assert section.index("dist/tiersnap.pex") < section.index("pip install")
    for row in re.findall(r"^\| (?:the|instead|with) .*", section, re.MULTILINE):
        assert re.search(r"\b\d+ s\b", row), row
    assert re.findall(r"\| 163 MB \+ 490 MB \|", section), "tests/artefact compares the first with the file"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", ["README.md", "docs/spark.md", "docs/airflow.md", "docs/collect.md"])
def test_pages_of_tiering_say_that_segments_are_published(page: str) -> None:
    """Uploaded segments are no use before brokers know them."""
    assert "publish" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["run", "tier"])
def test_help_of_tiering_says_that_segments_are_published(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tiersnap([command, "--help"]) == 0
    assert "tiersnap publish" in capsys.readouterr().out
