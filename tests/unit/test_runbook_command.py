"""`tiersnap runbook`: each word that tiersnap says is answered, by the text of docs/runbook.md in the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.unit.test_runbook import ENTRIES, EXPECTED, PARTS, TEXT
from tiersnap.jobs.cli.runbook import anchor_of, runbook
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.tables.reader_errors import of_words

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
NULL_POINTER = (
    'java.lang.NullPointerException: Cannot invoke "java.io.File.toPath()" because "producerStateSnapshotFile" is null'
)
# A line as it is pasted, and the entry that has the cure.
PASTED = {
    NULL_POINTER: "A stuck partition",
    "java.lang.IllegalArgumentException: segmentLeaderEpochs can not be null or empty": "Lost leader epochs",
    "ERROR Error building remote log auxiliary state for orders-0": "Objects that are lost or damaged",
    "orders-7 has only 3 of 9 active producers": "Lost producers",
    "log start of payments-3 unknown": "A log start that is unknown",
    "Unknown broker error": "A damaged index",
    "tiersnap.remote_storage.errors.WrongPlaceError": "A remote location that brokers do not read",
    "LostCopyError": "Objects that are lost or damaged",
    "full disk": "A full disk",
    "a-full-disk": "A full disk",
}


def titles(word: str) -> list[str]:
    return [each.entry for each in runbook().find(word)]


def test_runbook_has_the_text_of_the_page() -> None:
    assert (ROOT / "src/tiersnap/runbook.md").read_text(encoding="utf-8") == TEXT
    ran = tiersnap("runbook", output="table")
    assert_said(ran, ExitCode.OK)
    assert all(re.search(rf"^{title}\b", ran.out, re.MULTILINE) for title in ENTRIES)


@pytest.mark.parametrize("title", ENTRIES)
def test_runbook_prints_each_word_of_an_entry_found_by_title_or_anchor(title: str) -> None:
    ran = tiersnap("runbook", title, output="table")
    assert ran.exit_code == ExitCode.OK
    printed = set(re.findall(r"\w+", ran.out))
    text = re.sub(r"^\|.+\n(?=\| ---)", "", re.sub(r"\]\([^)]*\)", "", ENTRIES[title]), flags=re.MULTILINE)
    assert set(re.findall(r"\w+", text)) <= printed
    assert tiersnap("runbook", anchor_of(title), output="table").out == ran.out


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`(tiersnap [a-z-]+ [^`]+)`", TEXT))))
def test_runbook_prints_a_command_alone_on_its_line(command: str) -> None:
    words = " ".join(command.split())
    titled = [title for title, text in ENTRIES.items() if f"`{command}`" in re.sub(r"^\|.*\|$", "", text, flags=re.M)]
    for title in titled:
        lines = [line.strip() for line in tiersnap("runbook", title, output="table").out.splitlines()]
        assert words in lines, title


@pytest.mark.parametrize("part", EXPECTED)
def test_runbook_explains_each_verdict_finding_and_exit_code(part: str) -> None:
    for name in EXPECTED[part]:
        for word in name.split(": "):
            found = runbook().find(word)
            assert (name, part) in [(each.entry, each.section) for each in found], word
            assert found[0].text.startswith("means: ")


def test_runbook_prints_the_entry_to_which_a_row_leads() -> None:
    assert titles(str(FindingKind.BAD_CRC)) == ["BAD_CRC", "A damaged log"]
    assert titles("6") == titles("exit code 6") == titles("PARTIAL")
    assert "A file that you may not read" in titles("6")


@pytest.mark.parametrize("line", PASTED)
def test_runbook_finds_the_entry_of_a_pasted_line(line: str) -> None:
    assert PASTED[line] in titles(line)
    assert len(titles(line)) <= 2


def test_runbook_takes_a_word_of_several_words_without_quotes() -> None:
    assert tiersnap("runbook", "A", "full", "disk").out == tiersnap("runbook", "A full disk").out


def test_runbook_explains_an_error_of_ours_by_its_exit_code() -> None:
    ran = tiersnap("runbook", "NoSpaceError: cannot write x", output="table")
    assert "3: TRANSIENT (Exit codes)" in ran.out


def test_runbook_translates_a_text_of_spark() -> None:
    ran = tiersnap("runbook", "java.io.IOException: No space left on device", output="table")
    assert_said(ran, ExitCode.OK)
    assert "exit code: 3 (TRANSIENT)" in ran.out


def test_runbook_has_the_exit_code_of_each_text_of_spark_that_it_names() -> None:
    table = re.findall(r"^\| (.*`.*) \| ([235]) \|", PARTS["A run that Spark ended"], re.MULTILINE)
    texts = {text: int(code) for cell, code in table for text in re.findall(r"`([^`]+)`", cell)}
    assert len(texts) > 10
    found = {text: of_words("run", f"java.io.IOException: {text}") for text in texts}
    assert {text: int(error.exit_code) for text, error in found.items() if error} == texts


@pytest.mark.parametrize(("word", "near"), [("MISING_SNAPSHOT", "MISSING_SNAPSHOT"), ("A ful disc", "A full disk")])
def test_runbook_names_near_words_of_an_unknown_one(word: str, near: str) -> None:
    assert_said(tiersnap("runbook", word), ExitCode.USAGE, "the runbook does not contain this word", near)


def test_runbook_lists_its_entries_for_a_word_like_no_other() -> None:
    assert_said(tiersnap("runbook", "qqqq"), ExitCode.USAGE, "to list the entries: tiersnap runbook")


def test_runbook_reads_the_package_and_nothing_beside_it(tmp_path: Path) -> None:
    """As on a host without extras and without the checkout's docs: neither boto3 nor Spark is imported."""
    code = "import sys; from tiersnap.jobs.main import run; run(['runbook', '4']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "4: GATE_REFUSED" in done.stdout
    assert not {"boto3", "pyspark", "numba", "pyarrow"} & set(re.findall(r"'([^']+)'", done.stdout.splitlines()[-1]))


def test_each_hint_names_an_entry_of_the_runbook_and_no_page() -> None:
    named = set()
    for room in ("jobs", "remote_storage", "snapshot", "conf"):
        for path in (each for each in (ROOT / room).rglob("*") if each.suffix in {".py", ".yaml", ".html", ".json"}):
            text = re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
            named |= set(re.findall(r"tiersnap runbook '([^']+)'", text))
            named |= set(re.findall(r'\("runbook", "([^"]+)"\)', text))
            strings = re.findall(r'(?<!")"[^"\n]*docs/[\w/-]+\.md[^"\n]*"', text)
            is_comment = path.name == "spark_made_tables.py"  # of a column, for notebooks
            assert not strings or is_comment, path
    assert len(named) > 4
    assert named <= {*PARTS, "no space left on device"}


@pytest.mark.parametrize("command", ["runbook", "explain"])
def test_a_long_text_that_is_not_known_is_not_repeated_whole(command: str) -> None:
    ran = tiersnap(command, "Z" * 20_000)
    assert ran.exit_code == 2
    assert "ZZZ" in ran.err
    assert len(ran.err) < 400
