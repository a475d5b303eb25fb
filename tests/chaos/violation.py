"""One promise that a history breaks."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """`rule` is a word, `text` says where."""

    rule: str
    text: str
