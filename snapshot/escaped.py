r"""Text that came from files and names, as it may be shown to people.

A name can hold what moves the cursor, what forges a line or what turns the direction of writing around; all of that is
shown as `\x1b`.
"""

from __future__ import annotations

import unicodedata

_ODD = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def escaped(text: str) -> str:
    """The text without control characters, characters of format, lone surrogates and line separators."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(each) if unicodedata.category(each) in _ODD else each for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
