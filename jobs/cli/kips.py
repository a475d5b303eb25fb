"""The entries of docs/kips.md. The package contains a copy of the page, so a host without network can print it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

_ENTRIES = re.compile(r"^## (KIP-\d+): (.+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExplainedKip:
    """An entry of docs/kips.md, as `tiersnap explain KIP-360` prints it."""

    COLUMNS: ClassVar = ("kip", "title")
    kip: str  # as KIP-360
    title: str
    text: str  # Markdown


@cache
def explained_kips() -> tuple[ExplainedKip, ...]:
    """Return the entries in the order of the page."""
    text = resources.files("tiersnap").joinpath("kips.md").read_text(encoding="utf-8")
    _, *parts = _ENTRIES.split(text)
    return tuple(map(ExplainedKip, parts[::3], parts[1::3], map(str.strip, parts[2::3])))


def find_kip(word: str) -> ExplainedKip | None:
    """Return the entry for a word such as `KIP-360` or `kip 360`; None for any other word, and for an unknown KIP."""
    number = re.fullmatch(r"kip[- ]?(\d+)", word.strip(), re.IGNORECASE)
    if number is None:
        return None
    for each in explained_kips():
        if each.kip == f"KIP-{number[1]}":
            return each
    return None
