"""Format rows as text. In a pipe each row is one line, for grep and awk. On a terminal a table fits the width.

On a terminal, wide cells are wrapped between words. A column of sentences keeps a width of at least 24 characters. If
the table is then too wide, its widest column of sentences is moved out: each text is printed below its row. If no
column of sentences remains and the table is still too wide, the last column is moved out. The first column always
stays. If consecutive rows have the same texts below them, the texts are printed once, below the last of these rows. A
command is never wrapped, so that users can paste it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TypeVar

_HEADING, _SENTENCE = 9, 24  # least widths of a heading and of a sentence, in characters
Cells = Sequence[Sequence[str]]
T = TypeVar("T")


@dataclass(frozen=True)
class _Column:
    """The widths of a column."""

    full: int  # if nothing is wrapped
    wide: int  # if only sentences are wrapped, at 24 characters
    least: int  # if every text is wrapped between words

    @staticmethod
    def of(texts: Sequence[str]) -> _Column:
        heading, *values = texts
        full = max(map(len, texts))
        wide = full
        if full > _SENTENCE and " " in "".join(values):
            wide = _SENTENCE
        longest_word = max(map(len, " ".join(values).split()), default=0)
        return _Column(full, wide, max(longest_word, min(len(heading), _HEADING)))


def lines_of_table(cells: Cells, is_right: Sequence[bool], width: int | None) -> Iterator[str]:
    """Yield the lines of a table with two blanks between columns.

    Args:
        cells: texts of the headings, and of each row.
        is_right: True for each right-aligned column.
        width: characters per line of the terminal; None for no wrapping.
    """
    columns = list(map(_Column.of, zip(*cells, strict=True)))
    kept = list(range(len(columns)))
    apart: list[int] = []
    if width is not None:
        apart = sorted(_taken_out(columns, kept, width))
    widths = _widths(_picked(columns, kept), width)
    below: list[list[str]] = [[], *(_named_values(cells[0], row, apart) for row in cells[1:])]
    for row, (texts, following) in zip(cells, pairwise([*below, []]), strict=True):
        yield from _row(_picked(row, kept), widths, _picked(is_right, kept))
        if texts == following:
            continue
        for text in texts:
            yield from folded(text, width, "  ", "    ")


def _picked(found: Sequence[T], places: Iterable[int]) -> list[T]:
    return [found[each] for each in places]


def folded(text: str, width: int | None, first: str = "", others: str = "") -> list[str]:
    """Return the lines of a sentence, wrapped at `width` characters including the indent.

    A sentence with a tiersnap command stays on one line, and so does every sentence if `width` is None.

    Args:
        text: the sentence.
        width: characters per line of the terminal.
        first: indent of the first line.
        others: indent of the other lines.
    """
    if width is None or "tiersnap " in text:
        return [first + text]
    return textwrap.wrap(text, max(width, _SENTENCE), initial_indent=first, subsequent_indent=others) or [first]


def _named_values(headings: Sequence[str], row: Sequence[str], columns: Iterable[int]) -> list[str]:
    return [f"{headings[each]}: {row[each]}" for each in columns if row[each]]


def _taken_out(columns: Sequence[_Column], kept: list[int], width: int) -> Iterator[int]:
    """Yield the numbers of the columns to print below the rows, until the columns in `kept` fit `width`.

    Each yielded number is removed from `kept`. The first column always stays.
    """
    while len(kept) > 1:
        wide, least = _totals(_picked(columns, kept))
        if wide <= width:
            return
        sentences = [each for each in kept[1:] if columns[each].wide < columns[each].full]
        if not sentences and least <= width:
            return
        taken = max(sentences, key=lambda each: columns[each].full, default=kept[-1])
        kept.remove(taken)
        yield taken


def _totals(columns: Sequence[_Column]) -> tuple[int, int]:
    """Return the width of a row whose columns are `wide`, and the width of a row whose columns are `least`."""
    return _total([each.wide for each in columns]), _total([each.least for each in columns])


def _widths(columns: Sequence[_Column], width: int | None) -> list[int]:
    """Return the widths of the columns, narrowed to fit `width`. Sentences are narrowed first, then other columns."""
    widths = [each.full for each in columns]
    if width is not None:
        _narrow(widths, [each.wide for each in columns], width)
        _narrow(widths, [each.least for each in columns], width)
    return widths


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Narrow the widest columns in place until the row fits `width`, or until no column is wider than in `least`."""
    while _total(widths) > width:
        widest = max(range(len(widths)), key=lambda each: (widths[each] > least[each], widths[each]))
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * len(widths) - 2


def _row(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> Iterator[str]:
    for line in zip_longest(*map(_wrapped, row, widths), fillvalue=""):
        yield "  ".join(map(_aligned, line, widths, is_right)).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _aligned(text: str, width: int, is_right: bool) -> str:
    return text.rjust(width) if is_right else text.ljust(width)
