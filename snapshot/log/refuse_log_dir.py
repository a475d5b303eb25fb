"""Refuse to write output into a broker's log directory. Only `repair`, `install` and `restore` may write there.

A broker fails at an unknown folder in its log directory, and reads each file in a partition folder as its own. The
given directory and all directories above it are examined. A directory counts as a broker's if it contains a file that
brokers keep in a log directory, or a folder named `<topic>-<partition>` with a segment. The given directory also counts
if it contains `.lock` or a segment.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tiersnap.snapshot.errors import LogDirAsTargetError
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.log.log_dir import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    split_folder_name,
)

_AT_THE_TOP = frozenset(
    {META_PROPERTIES, CLEAN_SHUTDOWN, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, CLEANER_OFFSETS}
)
_LOCK = ".lock"  # many programs write one, so it counts only in the given directory and not in those above it
_SEGMENT = re.compile(r"[0-9]{20}\.log")


def refuse_log_dir(path: str | os.PathLike[str], what: str) -> None:
    """Raise an error if `path` is, or is inside, a broker's log directory. The path need not exist.

    Args:
        path: a local path; links are followed, as a write would follow them.
        what: the output to write to the path, as subject of the message: `--out`, `the report`.

    Raises:
        LogDirAsTargetError: the path is in a broker's log directory.
    """
    real = Path(os.path.realpath(Path(path).expanduser()))
    for directory in (real, *real.parents):
        mark = _mark_of(directory, is_named=directory == real)
        if mark is not None:
            raise LogDirAsTargetError(
                f"{what} {str(path)!r} is in {str(directory)!r}, which is a broker's log directory: it has {mark}",
                hint="give a directory outside of the broker's log.dirs: a broker fails if it finds unknown files "
                "there",
            )


def _mark_of(directory: Path, *, is_named: bool) -> str | None:
    """Return the file or folder that shows that `directory` belongs to a broker, or None if there is no such file.

    If this user may not list the directory, return None.
    """
    names = _names(directory)
    marks = set(_AT_THE_TOP)
    if is_named:
        marks.add(_LOCK)
    if found := marks.intersection(names):
        return min(found)
    if is_named or split_folder_name(directory.name):
        segment = next(filter(_SEGMENT.fullmatch, names), None)
        if segment is not None:
            return segment
    for folder in filter(split_folder_name, names):
        segment = next(filter(_SEGMENT.fullmatch, _names(directory / folder)), None)
        if segment is not None:
            return f"{folder}/{segment}"
    return None


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except OSError:
        return []
