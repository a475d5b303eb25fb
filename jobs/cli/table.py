"""Format rows as text: in a pipe one line for each row, for grep and awk; on a terminal not wider than the terminal.

Wide cells are folded between words, never inside a value. If a sentence would be narrower than 24 columns, it moves
below its row, and after it the last columns, which matter least. Neighbouring rows with equal values share these lines.
A command is not folded, so that it can be pasted.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, zip_longest

_HEADING, _SENTENCE = 9, 24  # columns below which neither is folded
Cells = Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Column:
    """Widths of a column: in full, without folding a sentence too much, and the least."""

    full: int
    wide: int
    least: int

    @staticmethod
    def of(texts: Sequence[str]) -> _Column:
        full, heading, values = max(map(len, texts)), len(texts[0]), texts[1:]
        is_sentence = full > _SENTENCE and any(" " in text for text in values)
        words = [len(word) for text in values for word in text.split()]
        return _Column(full, _SENTENCE if is_sentence else full, max([min(heading, _HEADING), *words]))


def lines_of_table(cells: Cells, is_right: Sequence[bool], width: int | None) -> Iterator[str]:
    """Yield the lines of a table with two blanks between its columns; a `width` of None folds nothing.

    `cells` are the texts of the heading and of each row; `is_right` has a True for each right-aligned column.
    """
    columns = [_Column.of(texts) for texts in zip(*cells, strict=True)]
    kept = list(range(len(columns)))
    apart = [] if width is None else sorted(_taken_out(columns, kept, width))
    widths = _widths([columns[each] for each in kept], width)
    below: list[list[str]] = [[], *(_named_values(cells[0], row, apart) for row in cells[1:])]
    for row, (texts, following) in zip(cells, pairwise([*below, []]), strict=True):
        yield from _row([row[each] for each in kept], widths, [is_right[each] for each in kept])
        if texts != following:
            yield from chain.from_iterable(folded(text, width, "  ", "    ") for text in texts)


def folded(text: str, width: int | None, first: str = "", others: str = "") -> list[str]:
    """Return a sentence in lines of at most `width` after the indents; in one line if it names a command."""
    if width is None or "tiersnap " in text:
        return [first + text]
    return textwrap.wrap(text, max(width, _SENTENCE), initial_indent=first, subsequent_indent=others) or [first]


def _named_values(headings: Sequence[str], row: Sequence[str], columns: Iterable[int]) -> list[str]:
    return [f"{headings[each]}: {row[each]}" for each in columns if row[each]]


def _taken_out(columns: Sequence[_Column], kept: list[int], width: int) -> Iterator[int]:
    """Move columns from `kept` to below the rows until the others fit, and yield them; the first column stays."""
    while len(kept) > 1 and _total([columns[each].full for each in kept]) > width:
        sentences = [each for each in kept[1:] if columns[each].wide < columns[each].full]
        if _total([columns[each].wide for each in kept]) <= width:
            return
        if not sentences and _total([columns[each].least for each in kept]) <= width:
            return
        taken = max(sentences, key=lambda each: columns[each].full, default=kept[-1])
        kept.remove(taken)
        yield taken


def _widths(columns: Sequence[_Column], width: int | None) -> list[int]:
    """Return the widths of columns that fit: sentences are folded first, then headings."""
    widths = [each.full for each in columns]
    for least in ([each.wide for each in columns], [each.least for each in columns]):
        while width is not None and _total(widths) > width:
            widest = max(range(len(widths)), key=lambda each: (widths[each] > least[each], widths[each]))
            if widths[widest] <= least[widest]:
                break
            widths[widest] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * len(widths) - 2


def _row(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> Iterator[str]:
    parts = [
        textwrap.wrap(text, size, break_on_hyphens=False) if len(text) > size else [text]
        for text, size in zip(row, widths, strict=True)
    ]
    for line in zip_longest(*parts, fillvalue=""):
        aligned = zip(line, widths, is_right, strict=True)
        yield "  ".join(part.rjust(size) if right else part.ljust(size) for part, size, right in aligned).rstrip()
