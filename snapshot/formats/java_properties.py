r"""Parse a Java properties file, such as `server.properties`, like java.util.Properties.load.

    # or ! begins a comment; blank lines are skipped
    key=value       also `key: value` and `key value`; blanks around the separator are dropped
    a\              a line that ends in an odd number of backslashes continues on the next line; the leading
                    blanks of the next line are dropped
    \t \n \r \f \uXXXX are escapes; a backslash before any other character is dropped

If a key occurs more than once, the last value wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
# A separator is the first `=`, `:` or blank that no backslash precedes.
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Return the properties in `text` by key. Every text is accepted."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # the pattern matches the empty string
        found[_unescaped(key[1])] = _unescaped(line[key.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    begun = ""
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANK)
        if not begun and (not line or line[0] in "#!"):
            continue
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return _CONTROL.get(escape[2], escape[2])
