"""Decision tables as people read them: rows of cells between bars, and one way to read them all.

    # | state   | condition | B0     | B1           | B2
    1 | unknown | zero      | ACCEPT | =            | =
    2 | unknown | non-zero  | REFUSE | UNKNOWN_PID  | =

The first line names the columns. `=` repeats the cell to its left, so that a reader sees where an era differs.
"""

from __future__ import annotations

from collections.abc import Mapping

Row = Mapping[str, str]
SAME = "="


def read_table(text: str) -> tuple[Row, ...]:
    """Rows of a table, each with its cells by column name.

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


def words(cell: str) -> frozenset[str]:
    """The alternatives of a cell: `Empty, CompleteCommit` names two."""
    return frozenset(word.strip() for word in cell.split(","))
