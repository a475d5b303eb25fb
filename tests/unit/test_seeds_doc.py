"""seeds.md names modules, symbols, rows of tables, scenarios and commands that exist, each statement once."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.exactly_once.scenarios.registry import SCENARIOS
from tests.unit.exactly_once.test_scenarios import OF_RISK
from tiersnap.jobs.commands import COMMANDS
from tiersnap.jobs.commands.transactions import QUESTIONS
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.exactly_once.models.decision_table import Row

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs/contributing/seeds.md").read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in LINES if re.match(r"\| [0-9]", line)]
BUILT = [(row[0], row[2]) for row in ROWS if not row[2].startswith("n/a")]
SYMBOL = re.compile(r"`([\w/]+)\.py` \(`([\w.]+)`\)(?: rows? ((?:(?:, | and | to )?(?:[D\d]\w*|PrepareCommit))+))?")


def numbers_of(cell: str) -> list[str]:
    """Return the statements of a row: `0.17, 1.1` has two."""
    return cell.split(", ")


def test_each_row_has_a_number_a_statement_and_a_place() -> None:
    assert ROWS
    assert all(len(row) == 3 and all(row) for row in ROWS)
    firsts = [tuple(map(int, numbers_of(row[0])[0].split("."))) for row in ROWS]
    assert firsts == sorted(set(firsts))


def test_no_statement_is_missing() -> None:
    counts = {"0": 32, "1": 7, "2": 36, "3": 13, "4": 22}
    named = [number for row in ROWS for number in numbers_of(row[0])]
    assert len(named) == len(set(named))
    assert set(named) == {f"{seed}.{number + 1}" for seed, count in counts.items() for number in range(count)}


def test_rows_that_are_not_built_say_why() -> None:
    assert [row[2] for row in ROWS if row[2].startswith("n/a") and not re.match(r"n/a: .{5,}", row[2])] == []


def backticked(where: str) -> list[str]:
    return re.findall(r"`([^`]+)`", where)


@pytest.mark.parametrize(("number", "where"), BUILT, ids=[number for number, _ in BUILT])
def test_files_and_commands_of_a_row_exist(number: str, where: str) -> None:
    paths = [name for name in backticked(where) if "/" in name]
    commands = [name.split() for name in backticked(where) if name.startswith("tiersnap ")]
    assert paths or commands
    assert [name for name in paths if not (ROOT / name).exists()] == []
    assert {words[1] for words in commands} <= COMMANDS.keys()
    assert {words[2] for words in commands if words[1] == "transactions"} <= set(QUESTIONS)


def resolved(module: str, symbol: str) -> object:
    found: object = importlib.import_module(f"tiersnap.{module.replace('/', '.')}")
    for name in symbol.split("."):
        found = getattr(found, name)
    return found


def named_rows(words: str, table: tuple[Row, ...]) -> Iterator[str]:
    """`2 and 11` -> 2, 11; `7 to 11` -> 7, 11: whatever lies between two rows is there if the two are."""
    keys = {row.get("#", "") for row in table} | {cell for row in table for cell in row.values()}
    yield from (word for word in re.split(r", | and | to ", words) if word not in keys)


@pytest.mark.parametrize(("number", "where"), BUILT, ids=[number for number, _ in BUILT])
def test_symbols_and_table_rows_of_a_row_exist(number: str, where: str) -> None:
    for module, symbol, rows in SYMBOL.findall(where):
        found = resolved(module, symbol)
        assert list(named_rows(rows, found)) == [] if rows else True  # type: ignore[arg-type]
    assert "(`" not in SYMBOL.sub("", where), "every symbol stands behind its file"


@pytest.mark.parametrize(("number", "where"), BUILT, ids=[number for number, _ in BUILT])
def test_other_words_of_a_row_are_in_what_it_names(number: str, where: str) -> None:
    """Columns and kinds of a command, words of a table, names of cases."""
    rest = SYMBOL.sub("", where)
    commands = [name.split()[1] for name in backticked(where) if name.startswith("tiersnap ")]
    files = [ROOT / name for name in backticked(where) if "/" in name]
    schemas = [path for command in commands for path in (ROOT / "docs/schemas").glob(f"{command}*.json")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*files, *schemas) if path.is_file())
    text += "\n".join(AuditKind) if "audit" in commands else ""
    if "explain" in commands:
        situations = (ROOT / "snapshot/exactly_once/explain").glob("*.py")
        text += "".join(path.read_text(encoding="utf-8") for path in situations)
    options = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    words = [name for name in backticked(rest) if "/" not in name and not name.startswith("tiersnap ")]
    assert [
        word for word in words if (word.split()[0] not in options if word.startswith("--") else word not in text)
    ] == []


@pytest.mark.parametrize(("number", "where"), BUILT, ids=[number for number, _ in BUILT])
def test_scenarios_of_a_row_exist(number: str, where: str) -> None:
    known = {*SCENARIOS, *(f"T{number}" for number in OF_RISK)}
    named = re.findall(r"\bT\d+[a-z]?\b", re.sub(r"`[^`]*`", "", where))
    assert [name for name in named if name not in known and not any(each.startswith(name) for each in known)] == []
