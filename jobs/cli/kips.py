"""The entries of docs/kips.md, which the package holds as a file of its own, for a host without network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

_ENTRIES = re.compile(r"^## (KIP-\d+): (.+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExplainedKip:
    """A proposal: its problems, the commands that show them, and their output (`explain KIP-360`)."""

    COLUMNS: ClassVar = ("kip", "title")
    kip: str  # as KIP-360
    title: str
    text: str  # Markdown


@cache
def explained_kips() -> tuple[ExplainedKip, ...]:
    """Return the entries in the order of the page."""
    text = resources.files("tiersnap").joinpath("kips.md").read_text(encoding="utf-8")
    _, *parts = _ENTRIES.split(text)
    return tuple(ExplainedKip(*each) for each in zip(parts[::3], parts[1::3], map(str.strip, parts[2::3]), strict=True))


def find_kip(word: str) -> ExplainedKip | None:
    """Return the entry of a proposal by its number, as KIP-360 or kip 360; None for any other word."""
    number = re.fullmatch(r"kip[- ]?(\d+)", word.strip(), re.IGNORECASE)
    if number is None:
        return None
    return next((each for each in explained_kips() if each.kip == f"KIP-{number[1]}"), None)
