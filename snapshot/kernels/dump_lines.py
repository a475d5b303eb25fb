"""The compiled loop of `lines`."""

from __future__ import annotations

import numba
import numpy as np

LONGEST_NUMBER = 20


@numba.njit(cache=True)
def write(
    values: np.ndarray,
    codes: np.ndarray,
    widths: np.ndarray,
    words: np.ndarray,
    word_starts: np.ndarray,
    texts: np.ndarray,
    text_starts: np.ndarray,
    out: np.ndarray,
) -> int:
    """Write the lines into `out` and give the bytes used.

    Args:
        values: int64, a row a field, a column a line.
        codes: int32 like `values`; index of the word to print, -1 for the value.
        widths: int64, a field's width; see lines.Field.
        words: uint8, all words one after the other; word i is `words[word_starts[i]:word_starts[i + 1]]`.
        texts: uint8 likewise; text 0 stands before the first field, text j + 1 after field j.
        out: uint8, large enough.
    """
    digits = np.empty(LONGEST_NUMBER, np.uint8)
    fields, count = values.shape
    at = 0
    for i in range(count):
        for k in range(text_starts[0], text_starts[1]):
            out[at] = texts[k]
            at += 1
        for j in range(fields):
            start = at
            code = codes[j, i]
            first = LONGEST_NUMBER
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
                length = LONGEST_NUMBER - first
            for _ in range(widths[j] - length):
                out[at] = 32
                at += 1
            if code >= 0:
                for k in range(word_starts[code], word_starts[code + 1]):
                    out[at] = words[k]
                    at += 1
            else:
                for k in range(first, LONGEST_NUMBER):
                    out[at] = digits[k]
                    at += 1
            for _ in range(at - start, -widths[j]):
                out[at] = 32
                at += 1
            for k in range(text_starts[j + 1], text_starts[j + 2]):
                out[at] = texts[k]
                at += 1
    return at
