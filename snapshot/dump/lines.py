"""Columns of numbers and words -> lines of text, in one compiled pass.

A segment of 1 GiB can hold millions of batches; a Python step for each would take longer than reading the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

_PRINT_VALUE = -1
_LONGEST_NUMBER = 20


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
        max(_LONGEST_NUMBER, abs(field.width), *(len(text.encode()) for text in field.words), 0) for field in fields
    )
    out = np.empty(values.shape[1] * (longest + sum(map(len, texts))), np.uint8)
    used = _write(values, codes, widths, *_flat(words), *_flat(texts), out)
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


@numba.njit(cache=True)
def _write(
    values: np.ndarray,
    codes: np.ndarray,
    widths: np.ndarray,
    words: np.ndarray,
    word_starts: np.ndarray,
    texts: np.ndarray,
    text_starts: np.ndarray,
    out: np.ndarray,
) -> int:
    digits = np.empty(_LONGEST_NUMBER, np.uint8)
    fields, count = values.shape
    at = 0
    for i in range(count):
        for k in range(text_starts[0], text_starts[1]):
            out[at] = texts[k]
            at += 1
        for j in range(fields):
            start = at
            code = codes[j, i]
            first = _LONGEST_NUMBER
            if code >= 0:
                length = word_starts[code + 1] - word_starts[code]
            else:
                value = values[j, i]
                rest = np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)
                while True:
                    quotient = rest // np.uint64(10)
                    first -= 1
                    digits[first] = 48 + rest - quotient * np.uint64(10)
                    rest = quotient
                    if rest == 0:
                        break
                if value < 0:
                    first -= 1
                    digits[first] = 45
                length = _LONGEST_NUMBER - first
            for _ in range(widths[j] - length):
                out[at] = 32
                at += 1
            if code >= 0:
                for k in range(word_starts[code], word_starts[code + 1]):
                    out[at] = words[k]
                    at += 1
            else:
                for k in range(first, _LONGEST_NUMBER):
                    out[at] = digits[k]
                    at += 1
            for _ in range(at - start, -widths[j]):
                out[at] = 32
                at += 1
            for k in range(text_starts[j + 1], text_starts[j + 2]):
                out[at] = texts[k]
                at += 1
    return at
