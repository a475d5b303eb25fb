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
from typing import TypeVar

_HEADING, _SENTENCE = 9, 24  # columns below which neither is folded
Cells = Sequence[Sequence[str]]
T = TypeVar("T")


@dataclass(frozen=True)
class _Column:
    """Widths of a column: in full, without folding a sentence too much, and the least."""

    full: int
    wide: int
    least: int

    @staticmethod
    def of(texts: Sequence[str]) -> _Column:
        heading, *values = texts
        full = max(map(len, texts))
        is_sentence = full > _SENTENCE and any(" " in text for text in values)
        longest_word = max(map(len, " ".join(values).split()), default=0)
        return _Column(full, _SENTENCE if is_sentence else full, max(longest_word, min(len(heading), _HEADING)))


def lines_of_table(cells: Cells, is_right: Sequence[bool], width: int | None) -> Iterator[str]:
    """Yield the lines of a table with two blanks between its columns; a `width` of None folds nothing.

    `cells` are the texts of the heading and of each row; `is_right` has a True for each right-aligned column.
    """
    columns = list(map(_Column.of, zip(*cells, strict=True)))
    kept = list(range(len(columns)))
    apart = [] if width is None else sorted(_taken_out(columns, kept, width))
    widths = _widths(_picked(columns, kept), width)
    below: list[list[str]] = [[], *(_named_values(cells[0], row, apart) for row in cells[1:])]
    for row, (texts, following) in zip(cells, pairwise([*below, []]), strict=True):
        yield from _row(_picked(row, kept), widths, _picked(is_right, kept))
        if texts != following:
            yield from chain.from_iterable(folded(text, width, "  ", "    ") for text in texts)


def _picked(found: Sequence[T], places: Iterable[int]) -> list[T]:
    return [found[each] for each in places]


def folded(text: str, width: int | None, first: str = "", others: str = "") -> list[str]:
    """Return a sentence in lines of at most `width` after the indents; in one line if it names a command."""
    if width is None or "tiersnap " in text:
        return [first + text]
    return textwrap.wrap(text, max(width, _SENTENCE), initial_indent=first, subsequent_indent=others) or [first]


def _named_values(headings: Sequence[str], row: Sequence[str], columns: Iterable[int]) -> list[str]:
    return [f"{headings[each]}: {row[each]}" for each in columns if row[each]]


def _taken_out(columns: Sequence[_Column], kept: list[int], width: int) -> Iterator[int]:
    """Remove from `kept` and yield the columns that stand below the rows, until the others fit; the first one stays."""
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
    """Return the widths of a row whose columns are `wide`, and of one whose columns have the least width."""
    return _total([each.wide for each in columns]), _total([each.least for each in columns])


def _widths(columns: Sequence[_Column], width: int | None) -> list[int]:
    """Return the widths of columns that fit: sentences are folded first, then headings."""
    widths = [each.full for each in columns]
    if width is not None:
        _narrow(widths, [each.wide for each in columns], width)
        _narrow(widths, [each.least for each in columns], width)
    return widths


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Narrow the widest columns, none below its `least`, until all fit or none can be narrowed."""
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
    return textwrap.wrap(text, width, break_on_hyphens=False) if len(text) > width else [text]


def _aligned(text: str, width: int, is_right: bool) -> str:
    return text.rjust(width) if is_right else text.ljust(width)
