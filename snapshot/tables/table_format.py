"""Check that this version reads a table, whoever opened it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.tables.spark_made_tables import FORMAT_VERSION

START_ANEW = "tiersnap run --source LOGDIR --remote URI --warehouse OTHER --apply starts from remote storage"


def filled_by(warehouse: str) -> str:
    """Return the command that fills a warehouse, as the end of a hint."""
    return f"tiersnap run --source LOGDIR --remote URI --warehouse {shlex.quote(warehouse)} --apply fills it"


def refuse_newer(path: str, version: int | None) -> None:
    """See that no newer tiersnap made the table.

    Args:
        version: VERSION_KEY in the metadata of its first column.

    Raises:
        UsageError: a newer one did.
    """
    if version is not None and version > FORMAT_VERSION:
        raise UsageError(
            f"{path}: format {version} of a newer tiersnap, this one reads {FORMAT_VERSION}", hint="upgrade tiersnap"
        )


def refuse_other(path: str, needed: Iterable[str], there: Collection[str]) -> None:
    """See that the columns that are needed are there.

    Raises:
        CorruptDataError: some are not.
    """
    missing = [name for name in needed if name not in there]
    if missing:
        raise CorruptDataError(f"{path}: no table of this tiersnap: it lacks {', '.join(missing)}", hint=START_ANEW)


def refuse_unversioned(path: str, version: int | None) -> None:
    """See that the table names a format.

    Raises:
        CorruptDataError: it does not.
    """
    if version is None:
        raise CorruptDataError(f"{path}: no table of this tiersnap: it names no format", hint=START_ANEW)
