"""Convert the entries of a file to named columns, and columns to lines of a table or of JSON.

A compiled kernel writes the lines. A segment of 1 GiB can have millions of batches, and a Python loop over them would
take longer than reading the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiersnap.snapshot.kernels.dump_entries import LONGEST_NUMBER, write
from tiersnap.snapshot.units import escaped


@dataclass(frozen=True, slots=True)
class Column:
    """A named column with one value per entry."""

    name: str
    values: np.ndarray  # int64, or indexes into `words`
    words: tuple[str | None, ...] | None = None  # texts that `values` index; None is an absent value
    absent: np.ndarray | None = None  # bool, set for entries without a value; None if every entry has one
    is_time: bool = False  # whether `values` are ms since the epoch
    only: str = ""  # "json" or "table" if the other output omits the column

    def json_field(self) -> Field:
        """Return the values as JSON."""
        if self.words is not None:
            return word(self.values, list(map(json.dumps, self.words)))
        if self.values.dtype == np.bool_:
            return word(np.where(self._absent(), 2, self.values), ("false", "true", "null"))
        return number_or(self.values, self._absent(), "null")

    @property
    def is_text(self) -> bool:
        """Return whether the column is text or times, which tables align to the left."""
        return self.words is not None or self.is_time

    def text_field(self) -> Field:
        """Return the values as text. Times are ISO 8601 in UTC, and an absent value is `-`."""
        if self.words is not None:
            return word(self.values, list(map(_or_dash, self.words)))
        if self.values.dtype == np.bool_:
            return word(np.where(self._absent(), 2, self.values), ("false", "true", "-"))
        if self.is_time:
            return word(*_times(self.values, self._absent()))
        return number_or(self.values, self._absent(), "-")

    def _absent(self) -> np.ndarray:
        return np.zeros(self.values.size, np.bool_) if self.absent is None else self.absent


def _or_dash(text: str | None) -> str:
    if not text:
        return "-"
    return escaped(text)


def numbers(name: str, values: np.ndarray, *, none: int | None = None, only: str = "") -> Column:
    """Return a column of integers. Values that equal `none` are absent."""
    return Column(name, values.astype(np.int64), absent=None if none is None else values == none, only=only)


def times(name: str, values: np.ndarray, *, absent: np.ndarray | None = None, only: str = "") -> Column:
    """Return a column of times in ms since the epoch. If `absent` is None, entries with -1 have no value."""
    missing = values == -1 if absent is None else absent
    return Column(name, values.astype(np.int64), absent=missing, is_time=True, only=only)


def words(name: str, codes: np.ndarray, texts: Sequence[str | None], *, only: str = "") -> Column:
    """Return a column of texts. `codes` are indexes into `texts`."""
    return Column(name, codes, tuple(texts), only=only)


def flags(name: str, values: np.ndarray, *, absent: np.ndarray | None = None, only: str = "") -> Column:
    """Return a column of booleans."""
    return Column(name, values.astype(np.bool_), absent=absent, only=only)


def json_objects(columns: Sequence[Column], *, prefix: str = "", suffix: str = "\n") -> memoryview:
    """Return a JSON object per entry, each followed by `suffix`.

    `prefix` is JSON text that each object contains before the members of the columns.
    """
    pieces: list[str | Field] = []
    for i, column in enumerate(column for column in columns if column.only != "table"):
        pieces += [f"{', ' if i else '{' + prefix}{json.dumps(column.name)}: ", column.json_field()]
    return lines([*pieces, "}" + suffix])


class TextTable:
    """A table with aligned columns for streamed rows. Later rows can widen a column, but never narrow it."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def header(self, columns: Sequence[Column]) -> str:
        """Return the line of column names. `columns` contain the first rows of the table, which set the widths."""
        fields = self._fields(columns)
        titles = (_title(column, field) for column, field in zip(_in_table(columns), fields, strict=True))
        return "  ".join(titles).rstrip()

    def rows(self, columns: Sequence[Column]) -> memoryview:
        """Return one line per row."""
        pieces: list[str | Field] = []
        for field in self._fields(columns):
            pieces += ["  " if pieces else "", field]
        return lines([*pieces, "\n"])

    def _fields(self, columns: Sequence[Column]) -> list[Field]:
        fields = []
        shown = _in_table(columns)
        for column in shown:
            field = column.text_field()
            width = max(self._widths.get(column.name, len(column.name)), text_width(field))
            self._widths[column.name] = width
            fields.append(replace(field, width=-width if column.is_text else width))
        if shown and shown[-1].is_text:
            fields[-1] = replace(fields[-1], width=0)
        return fields


def _in_table(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.only != "json"]


def _title(column: Column, field: Field) -> str:
    name = column.name.replace("_", " ")
    if field.width < 0:
        return name.ljust(-field.width)
    return name.rjust(field.width)


def _times(values: np.ndarray, absent: np.ndarray) -> tuple[np.ndarray, list[str]]:
    unique, codes = np.unique(values, return_inverse=True)
    texts = np.datetime_as_string(unique.astype("datetime64[ms]"), unit="ms").tolist()
    return np.where(absent, unique.size, codes), [*(f"{text}Z" for text in texts), "-"]


_PRINT_VALUE = -1


@dataclass(frozen=True, slots=True)
class Field:
    """One value per line: `words[codes[i]]`, or the number `values[i]` if the code is -1."""

    values: np.ndarray | None  # integers, one per line; None if all are words
    codes: np.ndarray | None  # integers, one per line; None if all are numbers
    words: tuple[str, ...] = ()
    width: int = 0  # minimum width in characters; positive pads on the left, negative on the right

    @property
    def size(self) -> int:
        """Return the number of lines."""
        return max(array.size for array in (self.values, self.codes) if array is not None)

    @property
    def longest(self) -> int:
        """Return an upper limit of a value's size in bytes."""
        return max(LONGEST_NUMBER, abs(self.width), *(len(text.encode()) for text in self.words), 0)


def number(values: np.ndarray) -> Field:
    """Return a field of decimal integers."""
    return Field(values, None)


def number_or(values: np.ndarray, absent: np.ndarray, word: str) -> Field:
    """Return a field of decimal integers. If `absent` (bool) is set, the line has `word` instead."""
    return Field(values, np.where(absent, 0, _PRINT_VALUE), (word,))


def word(codes: np.ndarray, words: Sequence[str]) -> Field:
    """Return a field with the text `words[codes[i]]` on line i."""
    return Field(None, codes, tuple(words))


def boolean(flags: np.ndarray) -> Field:
    """Return a field of `true` and `false`."""
    return word(flags, ("false", "true"))


def lines(pieces: Sequence[str | Field]) -> memoryview:
    """Return all lines as UTF-8 bytes. Each line contains the texts unchanged, and each field's value for this line.

    Example:
        >>> bytes(lines(["offset: ", number(np.array([7, 8])), ";"]))
        b'offset: 7;offset: 8;'
    """
    fields = [piece for piece in pieces if isinstance(piece, Field)]
    values, codes, words = _stacked(fields)
    texts, count = _texts_between(pieces), fields[0].size
    widths = np.array([field.width for field in fields], np.int64)
    out = np.empty(count * (sum(field.longest for field in fields) + sum(map(len, texts))), np.uint8)
    digits = np.empty(LONGEST_NUMBER, np.uint8)
    used = write(count, values.reshape(-1), codes.reshape(-1), widths, *_flat(words), *_flat(texts), digits, out)
    return out[:used].data


def _stacked(fields: Sequence[Field]) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Return the values and the codes with one row per field, and the list of words to which the codes refer."""
    values = np.empty((len(fields), fields[0].size), np.int64)
    codes = np.empty((len(fields), fields[0].size), np.int32)
    words = list[bytes]()
    for row, field in enumerate(fields):
        if field.values is not None:
            values[row] = field.values
        codes[row] = _PRINT_VALUE if field.codes is None else field.codes
        if words and field.words:
            codes[row] += (codes[row] >= 0) * np.int32(len(words))
        words += [text.encode() for text in field.words]
    return values, codes, words


def _texts_between(pieces: Sequence[str | Field]) -> list[bytes]:
    """Return the constant texts: one before each field, and one after the last field."""
    texts = [b""]
    for piece in pieces:
        if isinstance(piece, str):
            texts[-1] += piece.encode()
        else:
            texts.append(b"")
    return texts


def text_width(field: Field) -> int:
    """Return the length of the field's longest value in characters."""
    numbers = field.values
    used = [0]
    if field.codes is not None:
        used += [len(field.words[code]) for code in np.unique(field.codes).tolist() if code >= 0]
        numbers = None if numbers is None else numbers[field.codes < 0]
    if numbers is not None and numbers.size:
        used += [len(str(numbers.min())), len(str(numbers.max()))]
    return max(used)


def _flat(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(list(map(len, texts)), out=starts[1:])
    return np.frombuffer(b"".join(texts) or b"\0", np.uint8), starts
