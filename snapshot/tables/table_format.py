"""Checks that this version of tiersnap can read a table. They work with any reader of tables."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.tables.schema_parts import FORMAT_VERSION

START_ANEW = "tiersnap run --source LOGDIR --remote URI --warehouse OTHER --apply starts from remote storage"


def filled_by(warehouse: str) -> str:
    """Return the command that fills a warehouse, for the end of a hint."""
    return f"tiersnap run --source LOGDIR --remote URI --warehouse {shlex.quote(warehouse)} --apply fills it"


def refuse_newer(path: str, version: int | None) -> None:
    """Refuse a table of a newer format.

    Args:
        version: VERSION_KEY in the metadata of the first column, None if it is absent.

    Raises:
        UsageError: the format is newer than FORMAT_VERSION.
    """
    if version is not None and version > FORMAT_VERSION:
        raise UsageError(
            f"{path}: format {version} of a newer tiersnap, this one reads {FORMAT_VERSION}", hint="upgrade tiersnap"
        )


def refuse_other(path: str, needed: Iterable[str], there: Collection[str]) -> None:
    """Refuse a table that lacks columns.

    Raises:
        CorruptDataError: `there` lacks a column of `needed`.
    """
    missing = [name for name in needed if name not in there]
    if missing:
        raise CorruptDataError(f"{path}: no table of this tiersnap: it lacks {', '.join(missing)}", hint=START_ANEW)


def refuse_unversioned(path: str, version: int | None) -> None:
    """Refuse a table without a format version.

    Raises:
        CorruptDataError: `version` is None.
    """
    if version is None:
        raise CorruptDataError(f"{path}: no table of this tiersnap: it has no format version", hint=START_ANEW)
