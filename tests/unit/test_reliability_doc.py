"""docs/contributing/promises.md: every promise has a test, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs/contributing/promises.md").read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in LINES if line.startswith("| ")]
PROMISES = [row for row in ROWS if row[0] not in ("promise", "---")]


def test_each_promise_is_made_once_and_has_a_test() -> None:
    assert len(PROMISES) > 50
    assert {len(row) for row in PROMISES} == {2}
    assert len({row[0] for row in PROMISES}) == len(PROMISES)
    assert [row[0] for row in PROMISES if not re.findall(r"`(tests/[^`]+::[^`]+)`", row[1])] == []


@pytest.mark.parametrize("row", PROMISES, ids=[row[0] for row in PROMISES])
def test_every_test_that_is_named_exists(row: list[str]) -> None:
    for name in re.findall(r"`([^`]+)`", row[1]):
        path, _, function = name.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {re.escape(function)}\(", text, re.MULTILINE), name


def test_every_file_that_the_page_of_oracles_names_exists() -> None:
    page = (ROOT / "docs/contributing/reliability-oracles.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|conf)/[\w./-]+)`", page)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
