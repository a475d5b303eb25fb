"""A run of entries as named columns, ready for a table or for JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiersnap.snapshot.dump import lines
from tiersnap.snapshot.dump.lines import Field
from tiersnap.snapshot.escaped import escaped


@dataclass(frozen=True, slots=True)
class Column:
    """One value an entry."""

    name: str
    values: np.ndarray  # int64, or indexes into `words` where there are words
    words: tuple[str | None, ...] | None = None  # texts that the values stand for; None among them is an absent value
    absent: np.ndarray | None = None  # bool, entries without a value; None when all have one
    is_time: bool = False  # the values are ms since the epoch
    only: str = ""  # "json" or "table" when the column is shown in just one of them; tables are narrower

    def json_field(self) -> Field:
        """The column as JSON values."""
        if self.words is not None:
            return lines.word(self.values, [json.dumps(text) for text in self.words])
        if self.values.dtype == np.bool_:
            return lines.word(np.where(self._absent(), 2, self.values), ("false", "true", "null"))
        return lines.number_or(self.values, self._absent(), "null")

    def text_field(self) -> Field:
        """The column as words for people: ISO 8601 times in UTC, `-` for an absent value."""
        if self.words is not None:
            return lines.word(self.values, [escaped(text) if text else "-" for text in self.words])
        if self.values.dtype == np.bool_:
            return lines.word(np.where(self._absent(), 2, self.values), ("false", "true", "-"))
        if self.is_time:
            return lines.word(*_times(self.values, self._absent()))
        return lines.number_or(self.values, self._absent(), "-")

    def _absent(self) -> np.ndarray:
        return np.zeros(self.values.size, np.bool_) if self.absent is None else self.absent


def numbers(name: str, values: np.ndarray, *, none: int | None = None, only: str = "") -> Column:
    """A column of integers; `none` is the value that stands for an absent one."""
    return Column(name, values.astype(np.int64), absent=None if none is None else values == none, only=only)


def times(name: str, values: np.ndarray, *, absent: np.ndarray | None = None, only: str = "") -> Column:
    """A column of ms since the epoch; -1 is absent unless `absent` says otherwise."""
    missing = values == -1 if absent is None else absent
    return Column(name, values.astype(np.int64), absent=missing, is_time=True, only=only)


def words(name: str, codes: np.ndarray, texts: Sequence[str | None], *, only: str = "") -> Column:
    """A column of words."""
    return Column(name, codes, tuple(texts), only=only)


def flags(name: str, values: np.ndarray, *, absent: np.ndarray | None = None, only: str = "") -> Column:
    """A column of true and false."""
    return Column(name, values.astype(np.bool_), absent=absent, only=only)


def json_objects(columns: Sequence[Column], *, prefix: str = "", suffix: str = "\n") -> memoryview:
    """One JSON object a line; `prefix` holds members that go before those of the columns."""
    pieces: list[str | Field] = []
    for i, column in enumerate(column for column in columns if column.only != "table"):
        pieces += [f"{', ' if i else '{' + prefix}{json.dumps(column.name)}: ", column.json_field()]
    return lines.lines([*pieces, "}" + suffix])


class TextTable:
    """Aligned columns; widths are set by the first run and only grow, so that any number of rows streams through."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def header(self, columns: Sequence[Column]) -> str:
        """The line of column names; call it with the first run of rows."""
        fields = self._fields(columns)
        names = [column.name.replace("_", " ") for column in columns if column.only != "json"]
        return "  ".join(
            name.ljust(-field.width) if field.width < 0 else name.rjust(field.width)
            for name, field in zip(names, fields, strict=True)
        ).rstrip()

    def rows(self, columns: Sequence[Column]) -> memoryview:
        """The rows of one run."""
        pieces: list[str | Field] = []
        for field in self._fields(columns):
            pieces += ["  " if pieces else "", field]
        return lines.lines([*pieces, "\n"])

    def _fields(self, columns: Sequence[Column]) -> list[Field]:
        fields = []
        shown = [column for column in columns if column.only != "json"]
        for column in shown:
            field = column.text_field()
            width = max(self._widths.get(column.name, len(column.name)), lines.text_width(field))
            self._widths[column.name] = width
            is_text = column.words is not None or column.is_time
            fields.append(replace(field, width=-width if is_text and column is not shown[-1] else width))
        if shown and (shown[-1].words is not None or shown[-1].is_time):
            fields[-1] = replace(fields[-1], width=0)
        return fields


def _times(values: np.ndarray, absent: np.ndarray) -> tuple[np.ndarray, list[str]]:
    unique, codes = np.unique(values, return_inverse=True)
    texts = np.datetime_as_string(unique.astype("datetime64[ms]"), unit="ms").tolist()
    return np.where(absent, unique.size, codes), [*(f"{text}Z" for text in texts), "-"]
