"""Checks that this version of tiersnap can read a table. The checks work with any library that reads tables."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.tables.schema_parts import FORMAT_VERSION

START_ANEW = (
    "to fill a new warehouse from remote storage: tiersnap run --source LOGDIR --remote URI --warehouse OTHER --apply"
)


def filled_by(warehouse: str) -> str:
    """Return the command that fills a warehouse, for the end of a hint."""
    return f"to fill it: tiersnap run --source LOGDIR --remote URI --warehouse {shlex.quote(warehouse)} --apply"


def refuse_newer(path: str, version: int | None) -> None:
    """Refuse a table of a newer format.

    Args:
        version: VERSION_KEY in the metadata of the first column, None if it is absent.

    Raises:
        UsageError: the format is newer than FORMAT_VERSION.
    """
    if version is not None and version > FORMAT_VERSION:
        raise UsageError(
            f"{path}: a newer tiersnap wrote the table in format {version}, but this tiersnap reads format "
            f"{FORMAT_VERSION}",
            hint="upgrade tiersnap",
        )


def refuse_other(path: str, needed: Iterable[str], there: Collection[str]) -> None:
    """Refuse a table that lacks columns.

    Raises:
        CorruptDataError: `there` lacks a column of `needed`.
    """
    missing = [name for name in needed if name not in there]
    if missing:
        raise CorruptDataError(
            f"{path}: not a table of this tiersnap, because it lacks {', '.join(missing)}", hint=START_ANEW
        )


def refuse_unversioned(path: str, version: int | None) -> None:
    """Refuse a table without a format version.

    Raises:
        CorruptDataError: `version` is None.
    """
    if version is None:
        raise CorruptDataError(
            f"{path}: not a table of this tiersnap, because it has no format version", hint=START_ANEW
        )
