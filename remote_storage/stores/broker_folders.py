"""Folders that belong to a broker, where no object may be put: a broker that finds files it does not know dies of them.

A log directory is known by what a broker keeps in it: `meta.properties` or one of the checkpoint files; and, if it is
the very folder that was named, also by `.lock` or by a partition folder with segments. A folder inside a log directory
is as bad.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tiersnap.remote_storage.errors import LogDirAsStoreError
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.log.log_dir import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS

_MARKS = (META_PROPERTIES, HIGH_WATERMARKS, RECOVERY_POINTS, LOG_START_OFFSETS, CLEANER_OFFSETS)
_PARTITION = re.compile(r".+-[0-9]+")
_SEGMENT = re.compile(r"[0-9]{20}\.log")


def refuse_log_dir(path: Path) -> None:
    """Look at a folder that is to keep objects, and at those that it lies in; it need not exist.

    Raises:
        LogDirAsStoreError: a broker's log directory, or inside one.
    """
    real = Path(os.path.realpath(path))
    mark = _mark_of_folder(real)
    if mark is not None:
        raise _refused(path, real, mark)
    for folder in real.parents:
        for name in _MARKS:
            if os.path.lexists(folder / name):
                raise _refused(path, folder, name)


def _mark_of_folder(folder: Path) -> str | None:
    for name in (*_MARKS, ".lock"):
        if os.path.lexists(folder / name):
            return name
    for entry in _entries(folder):
        if _SEGMENT.fullmatch(entry.name):
            return entry.name
        if _PARTITION.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            for inner in _entries(Path(entry.path)):
                if _SEGMENT.fullmatch(inner.name):
                    return f"{entry.name}/{inner.name}"
    return None


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as found:
        yield from found


def _refused(path: Path, log_dir: Path, mark: str) -> LogDirAsStoreError:
    where = "is" if log_dir == Path(os.path.realpath(path)) else f"lies in {log_dir}, which is"
    return LogDirAsStoreError(
        f"{path} {where} a broker's log directory (it has {mark}): a broker dies of files that it does not know",
        hint="name a folder outside of every log.dirs of a broker",
    )
