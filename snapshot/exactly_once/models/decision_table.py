"""Decision tables as people read them: rows of cells between bars, and one way to read them all.

    # | state   | condition | B0     | B1           | B2
    1 | unknown | zero      | ACCEPT | =            | =
    2 | unknown | non-zero  | REFUSE | UNKNOWN_PID  | =

The first line names the columns. `=` repeats the cell to its left, so that a reader sees where an era differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ParamSpec

Row = Mapping[str, str]
SAME = "="
ANYTHING = ("any", "always")
P = ParamSpec("P")


def read_table(text: str) -> tuple[Row, ...]:
    """Read the rows of a table, each with its cells by column name.

    Raises:
        ValueError: a row has more or fewer cells than there are columns, or a column is named twice.
    """
    header, *lines = ([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())
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


def first_row(table: Iterable[Row], cells: Mapping[str, Collection[str]]) -> Row:
    """Return the first row that fits: each of the named cells is `any`, `always` or one of the values.

    Raises:
        LookupError: no row fits.
    """
    for row in table:
        if all(row[name] in ANYTHING or row[name] in values for name, values in cells.items()):
            return row
    raise LookupError(f"no row for {dict(cells)}")


def holding(conditions: Mapping[str, Callable[P, bool]], *args: P.args, **more: P.kwargs) -> list[str]:
    """Return the names of the conditions that hold."""
    return [name for name, holds in conditions.items() if holds(*args, **more)]


def words(cell: str) -> frozenset[str]:
    """Return the alternatives of a cell: `Empty, CompleteCommit` names two."""
    return frozenset(word.strip() for word in cell.split(","))
