"""Colours of verdicts and findings on a terminal: red, yellow, cyan or green by severity."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TextIO

import click


class Color(StrEnum):
    """Values of --color."""

    AUTO = "auto"  # colours on a terminal, but none if NO_COLOR is set or TERM is `dumb`
    ALWAYS = "always"
    NEVER = "never"

    def is_used(self, stream: TextIO) -> bool:
        """Return whether to colour the text for a stream (https://no-color.org)."""
        if self is not Color.AUTO:
            return self is Color.ALWAYS
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Return the text with ANSI colours around the names of verdicts and findings."""
    pattern, colour_of = _words()
    return pattern.sub(lambda word: click.style(word[0], fg=colour_of[word[0]]), text)


@functools.cache
def _words() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Return a pattern that matches any coloured word, and a mapping from each word to its colour."""
    from tiersnap.remote_storage.stores.probe_answer import ProbeVerdict
    from tiersnap.snapshot.gate.remote_check import RemoteVerdict
    from tiersnap.snapshot.gate.trusted import SnapshotVerdict
    from tiersnap.snapshot.gate.verdict import LEVEL, Level, Verdict
    from tiersnap.snapshot.log.findings import FindingKind

    of_level = {Level.BLOCKED: "red", Level.PENDING: "yellow", Level.IN_REMOTE: "yellow", Level.READY: "cyan"}
    colour_of = dict.fromkeys(map(str, FindingKind), "red")
    for verdict, level in LEVEL.items():
        if level in of_level:
            colour_of[str(verdict)] = of_level[level]
    colour_of |= dict.fromkeys(map(str, (Verdict.TIERED, SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS)), "green")
    unknown = SnapshotVerdict.UNVERIFIED, SnapshotVerdict.NOT_COMPARED, RemoteVerdict.NOT_CHECKABLE, ProbeVerdict.WARN
    colour_of |= dict.fromkeys(map(str, unknown), "yellow")
    wrong = SnapshotVerdict.CORRUPT, SnapshotVerdict.SUSPECT, SnapshotVerdict.MISSING, ProbeVerdict.FAIL
    colour_of |= dict.fromkeys((*map(str, wrong), "FAILED", "REFUSED"), "red")
    return re.compile(rf"\b(?:{'|'.join(colour_of)})\b"), colour_of
