"""Text that came from files, names and servers, as it may be shown on a terminal: escaped and without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.masking import IN_URI, masked
from tiersnap.snapshot.units import escaped

_LONGEST = 80  # characters of a pasted text in a message


def shown(text: str) -> str:
    """Return the text escaped and masked."""
    return escaped(masked(text))


def shortened(text: str) -> str:
    """Return a pasted text for a message: its first characters if it is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def in_words(value: object) -> str:
    """Return a value of a summary as text for people."""
    if isinstance(value, Mapping):
        return _joined(f"{count} {name}" for name, count in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return _joined(map(str, value))
    return "" if value is None else str(value)


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"


def refuse_credentials(name: str, value: object) -> None:
    """Refuse a setting's value that is a URI with a password in it (UsageError); the message does not show it."""
    for text in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(text, str) and IN_URI.search(text):
            raise UsageError(
                f"{name}: {masked(text)}: a password in a URI ends up in tables, logs and process lists",
                hint="give it by the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), a profile or a role",
            )
