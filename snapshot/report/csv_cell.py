"""A value as a cell of a CSV file that is read on terminals and in Excel: no cursor moves, and no text is a formula.

Text that a spreadsheet would take for a formula gets an apostrophe in front, which a program has to take away. Numbers
stay numbers.
"""

from __future__ import annotations

from tiersnap.snapshot.escaped import escaped

_BEGINS_FORMULA = tuple("=+-@")


def csv_cell(value: object) -> object:
    """The value, text of it made harmless."""
    if not isinstance(value, str):
        return value
    text = escaped(value)
    # What follows after white space is a formula, too.
    return f"'{text}" if text.lstrip().startswith(_BEGINS_FORMULA) else text
