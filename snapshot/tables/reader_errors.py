"""Conversion of error texts of Spark, Delta Lake, Hadoop and delta-rs into our errors; see `known_failures`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tiersnap.snapshot.errors import RemoteStorageError, TiersnapError
from tiersnap.snapshot.tables.known_failures import KNOWN_FAILURES, STAGE_MET_DAMAGE, TABLE_DAMAGED, KnownFailure

_LONGEST = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # of delta-rs
_BEFORE = re.compile(r"^(Caused by|Suppressed)?: ")
_WRITTEN = re.compile(r"[Ww]hile writing rows to (\S+?)\.? SQLSTATE")


def of_words(what: str, told: str) -> TiersnapError | None:
    """Return our error for an error text, None if no row of KNOWN_FAILURES matches.

    Args:
        what: subject of the message, such as a path.
        told: the error text with all stack traces.
    """
    told = _without_stack(told)
    return _first_error(what, told, (*KNOWN_FAILURES, STAGE_MET_DAMAGE))


def of_table(place: str, told: str) -> TiersnapError:
    """Return the error for a table that cannot be read. Only a text that names damage gives CorruptDataError."""
    told = _without_stack(told)
    known = _first_error(place, told, (*KNOWN_FAILURES, TABLE_DAMAGED))
    return known or RemoteStorageError(
        f"{place}: cannot be read: {_line(told, None)}", hint="check that this user may read the file"
    )


def _first_error(what: str, told: str, failures: Iterable[KnownFailure]) -> TiersnapError | None:
    """Return the error of the first failure whose pattern matches, None if none matches."""
    for each in failures:
        found = each.words.search(told)
        if found is not None:
            return _error(what, told, each, found)
    return None


def _error(what: str, told: str, known: KnownFailure, found: re.Match[str]) -> TiersnapError:
    written = _WRITTEN.search(told)
    place = f" for {written[1]}" if written else ""
    said = f": {_line(told, known)}" if known.is_quoted else ""
    return known.error(f"{what}: {known.sentence.format(*found.groups())}{place}{said}", hint=known.hint)


def _without_stack(told: str) -> str:
    """Return the text without stack frames. Names of classes and methods do not explain a failure."""
    return "\n".join(line for line in told.splitlines() if not line.lstrip().startswith("at "))


def _line(told: str, known: KnownFailure | None) -> str:
    """Return the shortest line that matches, because it names the cause. If none matches, return the first line."""
    lines = [_COLOUR.sub("", line).strip(" \t\u21b3") for line in told.splitlines() or [""]]
    matching = [line for line in lines if known is not None and known.words.search(line)]
    return _BEFORE.sub("", min(matching, key=len, default=lines[0]))[:_LONGEST]
