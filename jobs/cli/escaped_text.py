"""Escape and mask text from files, names and servers before it is printed on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.masking import IN_URI, masked
from tiersnap.snapshot.units import escaped

_LONGEST = 80  # characters of a pasted text in a message


def shown(text: str) -> str:
    """Return a text with escaped control characters and masked secrets."""
    return escaped(masked(text))


def shortened(text: str) -> str:
    """Return the first 80 characters of a text, for a message."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def in_words(value: object) -> str:
    """Return a value as text: "" for None, `none` for an empty collection, `4 MISSING` for `{"MISSING": 4}`."""
    if isinstance(value, Mapping):
        return _joined(f"{count} {name}" for name, count in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return _joined(map(str, value))
    return "" if value is None else str(value)


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"


def refuse_credentials(name: str, value: object) -> None:
    """Raise UsageError if `value`, or an item of it, contains a URI with a password.

    The message names the option `name`, and masks the password.
    """
    texts = value if isinstance(value, (list, tuple)) else (value,)
    for text in texts:
        if isinstance(text, str) and IN_URI.search(text):
            raise UsageError(
                f"{name}: {masked(text)}: a password in a URI would appear in tables, logs and process lists",
                hint="remove the password; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use "
                "a profile or a role",
            )
