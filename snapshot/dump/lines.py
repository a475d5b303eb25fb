"""Columns of numbers and words -> lines of text, in one compiled pass.

A segment of 1 GiB can hold millions of batches; a Python step for each would take longer than reading the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from snapshot.dump.line_kernels import LONGEST_NUMBER, write

_PRINT_VALUE = -1


@dataclass(frozen=True, slots=True)
class Field:
    """One value a line: `words[codes[i]]`, or the number `values[i]` where the code is -1.

    Attributes:
        values: int64, one a line.
        codes: int32, one a line.
        width: pad with spaces to this many characters: positive on the left, negative on the right.
    """

    values: np.ndarray
    codes: np.ndarray
    words: tuple[str, ...]
    width: int = 0


def number(values: np.ndarray) -> Field:
    """Integers in decimal."""
    return Field(values, np.full(values.size, _PRINT_VALUE, np.int32), ())


def number_or(values: np.ndarray, absent: np.ndarray, word: str) -> Field:
    """Integers in decimal, `word` where `absent` (bool) is set."""
    return Field(values, np.where(absent, 0, _PRINT_VALUE).astype(np.int32), (word,))


def word(codes: np.ndarray, words: Sequence[str]) -> Field:
    """`words[codes[i]]`."""
    return Field(np.zeros(codes.size, np.int64), codes.astype(np.int32), tuple(words))


def boolean(flags: np.ndarray) -> Field:
    """`true` or `false`."""
    return word(flags.astype(np.int32), ("false", "true"))


def lines(pieces: Sequence[str | Field]) -> memoryview:
    """Every line as UTF-8 bytes; texts stand between fields and are the same on every line.

    Example:
        >>> bytes(lines(["offset: ", number(np.array([7, 8])), ";"]))
        b'offset: 7;offset: 8;'
    """
    fields = [piece for piece in pieces if isinstance(piece, Field)]
    texts, words = [b""], list[bytes]()
    first_word = []
    for piece in pieces:
        if isinstance(piece, Field):
            first_word.append(len(words))
            words += [text.encode() for text in piece.words]
            texts.append(b"")
        else:
            texts[-1] += piece.encode()
    values = np.array([field.values for field in fields], np.int64)
    codes = np.array([field.codes + (field.codes >= 0) * first_word[i] for i, field in enumerate(fields)], np.int32)
    widths = np.array([field.width for field in fields], np.int64)
    longest = sum(
        max(LONGEST_NUMBER, abs(field.width), *(len(text.encode()) for text in field.words), 0) for field in fields
    )
    out = np.empty(values.shape[1] * (longest + sum(map(len, texts))), np.uint8)
    used = write(values, codes, widths, *_flat(words), *_flat(texts), out)
    return out[:used].data


def text_width(field: Field) -> int:
    """Characters of the field's longest value."""
    is_number = field.codes < 0
    used = [len(field.words[code]) for code in np.unique(field.codes[~is_number])]
    numbers = field.values[is_number]
    if numbers.size:
        used += [len(str(numbers.min())), len(str(numbers.max()))]
    return max(used, default=0)


def _flat(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return np.frombuffer(b"".join(texts) or b"\0", np.uint8), starts
