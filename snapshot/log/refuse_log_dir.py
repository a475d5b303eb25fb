"""Refuse to write below a broker's log directory; only `repair`, `install` and `restore` may do that.

A broker fails at an unknown folder in its log directory, and reads every file in a partition's folder as its own. A
directory is a broker's log directory if it contains one of the files that brokers keep at its top, or a folder named
`<topic>-<partition>` with a segment. The given directory itself is refused, too, if it contains `.lock` or a segment.
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
_LOCK = ".lock"  # of many programs, so it counts only in the very directory that was named
_SEGMENT = re.compile(r"[0-9]{20}\.log")


def refuse_log_dir(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a directory that is a broker's log directory or inside one; it need not exist yet.

    Args:
        path: a local path; its links are followed, as a write would follow them.
        what: the output to write there, subject of the message: `--out`, `the report`.

    Raises:
        LogDirAsTargetError: the directory is a broker's.
    """
    real = Path(os.path.realpath(Path(path).expanduser()))
    for directory in (real, *real.parents):
        mark = _mark_of(directory, is_named=directory == real)
        if mark is not None:
            raise LogDirAsTargetError(
                f"{what} {str(path)!r} is in {str(directory)!r}, which holds a broker's log (it has {mark})",
                hint="give a directory outside of the broker's log.dirs: a broker dies of what it does not know there",
            )


def _mark_of(directory: Path, *, is_named: bool) -> str | None:
    """Return the name that proves `directory` to be a broker's; None without one, or if this user may not list it."""
    names = _names(directory)
    marks = _AT_THE_TOP | {_LOCK} if is_named else _AT_THE_TOP
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
