"""Decision tables as text: rows of cells that are separated by bars, and functions that read them.

    # | state   | condition | B0     | B1           | B2
    1 | unknown | zero      | ACCEPT | =            | =
    2 | unknown | non-zero  | REFUSE | UNKNOWN_PID  | =

The first line has the names of the columns. `=` repeats the cell to its left, so a reader sees in which era an answer
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ParamSpec

Row = Mapping[str, str]
SAME = "="
ANYTHING = ("any", "always")
P = ParamSpec("P")


def read_table(text: str) -> tuple[Row, ...]:
    """Return the rows of a table. A row maps column names to cells.

    Raises:
        ValueError: a row does not have one cell per column, or a column name occurs twice.
    """
    header, *lines = map(_cells, text.strip().splitlines())
    if len(set(header)) != len(header):
        raise ValueError(f"a column is named twice: {header}")
    rows = []
    for cells in lines:
        if len(cells) != len(header):
            raise ValueError(f"{len(cells)} cells, {len(header)} columns: {cells}")
        for index, cell in enumerate(cells):
            if cell == SAME:
                cells[index] = cells[index - 1]
        rows.append(dict(zip(header, cells, strict=True)))
    return tuple(rows)


def _cells(line: str) -> list[str]:
    return list(map(str.strip, line.split("|")))


def first_row(table: Iterable[Row], cells: Mapping[str, Collection[str]]) -> Row:
    """Return the first row that matches.

    `cells` has the allowed values by column. A row matches if each of these columns has an allowed value in the row, or
    the word `any` or `always`.

    Raises:
        LookupError: no row matches.
    """
    for row in table:
        if all(row[name] in ANYTHING or row[name] in values for name, values in cells.items()):
            return row
    raise LookupError(f"no row for {dict(cells)}")


def holding(conditions: Mapping[str, Callable[P, bool]], *args: P.args, **more: P.kwargs) -> list[str]:
    """Return the names of the conditions that are true for the arguments."""
    return [name for name, holds in conditions.items() if holds(*args, **more)]


def words(cell: str) -> frozenset[str]:
    """Return the alternatives of a cell: `Empty, CompleteCommit` gives two."""
    return frozenset(map(str.strip, cell.split(",")))
