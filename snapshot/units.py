"""Convert durations, sizes, times and counts to and from texts for people."""

from __future__ import annotations

import re
import unicodedata

_DURATION = re.compile(r"(?P<number>[0-9]{1,15})(?P<unit>ms|s|m|h|d)")
_SIZE = re.compile(r"(?P<number>[0-9]{1,15})(?P<unit>kib|mib|gib|tib|)")
_UNIT_BYTES = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def parse_duration(text: str) -> int | None:
    """Return a duration such as '7d' in milliseconds; return None for 'none'.

    Raises:
        ValueError: the text is not a duration, or is a number without a unit.
    """
    text = text.strip().lower()
    if text == "none":
        return None
    match = _DURATION.fullmatch(text)
    if not match:
        needs = "needs a unit" if re.fullmatch("[0-9]+", text) else "is not a duration"
        raise ValueError(f"{text!r} {needs}; use 7d, 12h, 15m, 30s, 500ms or none")
    return int(match["number"]) * _UNIT_MS[match["unit"]]


def format_duration(milliseconds: int | None) -> str:
    """Return a duration in ms as `parse_duration` reads it: 604800000 -> '7d', None -> 'none'.

    The unit is the largest one that needs no fraction.
    """
    if milliseconds is None:
        return "none"
    for unit, length in _UNIT_MS.items():
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def parse_size(text: str) -> int:
    """Return a size such as '10GiB' or '10 GiB' in bytes. A number without a unit is bytes, as in Kafka's configs.

    Raises:
        ValueError: the text is not a size. `GB` is refused, because it may mean powers of 1,000 or of 1,024.
    """
    match = _SIZE.fullmatch(text.strip().lower().replace(" ", ""))
    if not match:
        raise ValueError(f"{text!r} is not a size; use 10GiB, 500MiB, 64KiB or a number of bytes")
    return int(match["number"]) * _UNIT_BYTES[match["unit"]]


def human_bytes(count: int) -> str:
    """Return a number of bytes as text for people: 1536 -> '1.5 KiB'."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def human_duration(milliseconds: int) -> str:
    """Return a duration in ms, rounded, as text for people: 90_000 -> '1.5 min'."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= length:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds} ms"


def utc(milliseconds: int | None) -> str | None:
    """Return a time in ms since the epoch in ISO 8601: 1795264963642 -> '2026-11-21T12:42:43.642Z'.

    Return None for None and for -1, Kafka's value for no timestamp. A year may have more than four digits, because
    producers may send any timestamp.
    """
    if milliseconds is None or milliseconds == -1:
        return None
    import numpy as np

    return f"{np.datetime64(milliseconds, 'ms')}Z"


def noun_of(count: int, noun: str, plural: str = "") -> str:
    """Return the noun for a count: 1, 'segment' -> 'segment'; 2, 'segment' -> 'segments', or `plural` if given."""
    return noun if count == 1 else plural or f"{noun}s"


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return a count and its noun: 1, 'segment' -> '1 segment'; 2, 'segment' -> '2 segments'. See `noun_of`."""
    return f"{count} {noun_of(count, noun, plural)}"


_ODD = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def escaped(text: str) -> str:
    r"""Return the text with control characters escaped, for example as `\x1b`.

    Use it for text that did not come from tiersnap: unescaped control characters could move a terminal's cursor or
    forge a line. Format characters (such as those for text direction), lone surrogates and line separators are also
    escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape_odd, text))


def _escape_odd(character: str) -> str:
    if unicodedata.category(character) not in _ODD:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
