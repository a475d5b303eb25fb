"""docs/seeds.md names modules and commands that exist, each statement once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tiersnap.jobs.command_line.commands import COMMANDS
from tiersnap.jobs.transactions import Question

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs/seeds.md").read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in LINES if re.match(r"\| [0-9]", line)]


def test_each_row_has_a_number_a_statement_and_a_place() -> None:
    assert ROWS
    assert all(len(row) == 3 and all(row) for row in ROWS)
    numbers = [tuple(map(int, number.split("."))) for number, _, _ in ROWS]
    assert numbers == sorted(set(numbers))


def test_no_statement_is_missing() -> None:
    counts = {"0": 32, "1": 7, "2": 36, "3": 13, "4": 22}
    assert {row[0] for row in ROWS} == {
        f"{seed}.{number + 1}" for seed, count in counts.items() for number in range(count)
    }


@pytest.mark.parametrize(("number", "where"), [(row[0], row[2]) for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_a_row_names_exists(number: str, where: str) -> None:
    if where.startswith(("n/a", "not built")):
        assert re.match(r"(n/a|not built): .{5,}", where), "and why"
        return
    named = re.findall(r"`([^`]+)`", where)
    paths = [name for name in named if "/" in name]
    commands = [name.split() for name in named if name.startswith("tiersnap ")]
    assert paths or commands
    assert [name for name in paths if not (ROOT / name).exists()] == []
    assert {words[1] for words in commands} <= COMMANDS.keys()
    assert {words[2] for words in commands if words[1] == "transactions"} <= set(Question)
