"""Columns of numbers and words -> lines of text, in one compiled pass.

A segment of 1 GiB can hold millions of batches; a Python step for each would take longer than reading the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.kernels.dump_entries import LONGEST_NUMBER, write

_PRINT_VALUE = -1


@dataclass(frozen=True, slots=True)
class Field:
    """One value a line: `words[codes[i]]`, or the number `values[i]` where the code is -1."""

    values: np.ndarray | None  # integers, one a line; None when all are words
    codes: np.ndarray | None  # integers, one a line; None when all are numbers
    words: tuple[str, ...] = ()
    width: int = 0  # pad with spaces to this many characters: positive on the left, negative on the right


def number(values: np.ndarray) -> Field:
    """Integers in decimal."""
    return Field(values, None)


def number_or(values: np.ndarray, absent: np.ndarray, word: str) -> Field:
    """Integers in decimal, `word` where `absent` (bool) is set."""
    return Field(values, np.where(absent, 0, _PRINT_VALUE), (word,))


def word(codes: np.ndarray, words: Sequence[str]) -> Field:
    """`words[codes[i]]`."""
    return Field(None, codes, tuple(words))


def boolean(flags: np.ndarray) -> Field:
    """`true` or `false`."""
    return word(flags, ("false", "true"))


def lines(pieces: Sequence[str | Field]) -> memoryview:
    """Every line as UTF-8 bytes; texts stand between fields and are the same on every line.

    Example:
        >>> bytes(lines(["offset: ", number(np.array([7, 8])), ";"]))
        b'offset: 7;offset: 8;'
    """
    fields = [piece for piece in pieces if isinstance(piece, Field)]
    count = max(array.size for array in (fields[0].values, fields[0].codes) if array is not None)
    values = np.empty((len(fields), count), np.int64)
    codes = np.empty((len(fields), count), np.int32)
    texts, words = [b""], list[bytes]()
    row = 0
    for piece in pieces:
        if isinstance(piece, str):
            texts[-1] += piece.encode()
            continue
        if piece.values is not None:
            values[row] = piece.values
        codes[row] = _PRINT_VALUE if piece.codes is None else piece.codes
        if words and piece.words:
            codes[row] += (codes[row] >= 0) * np.int32(len(words))
        words += [text.encode() for text in piece.words]
        texts.append(b"")
        row += 1
    widths = np.array([field.width for field in fields], np.int64)
    longest = sum(
        max(LONGEST_NUMBER, abs(field.width), *(len(text.encode()) for text in field.words), 0) for field in fields
    )
    out = np.empty(count * (longest + sum(map(len, texts))), np.uint8)
    used = write(values, codes, widths, *_flat(words), *_flat(texts), out)
    return out[:used].data


def text_width(field: Field) -> int:
    """Characters of the field's longest value."""
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
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return np.frombuffer(b"".join(texts) or b"\0", np.uint8), starts
