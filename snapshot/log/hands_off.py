"""A broker's directory is written by `repair`, `install` and `restore` alone: everything else keeps its hands off.

A broker dies of a folder in its log directory that it does not know, and reads every file in a partition's folder as
its own. A directory is a broker's when it holds one of the files that brokers keep at its top, or a folder named
`<topic>-<partition>` with a segment in it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.log.log_dir import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    split_folder_name,
)

_AT_THE_TOP = (
    META_PROPERTIES,
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CLEANER_OFFSETS,
)
_SEGMENT = re.compile(r"[0-9]{20}\.log")


def refuse_log_dir(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a directory that is a broker's log directory or lies in one; nothing has to be there yet.

    Args:
        path: of the local file system; links in it are followed, as a write would follow them.
        what: says what would be written there, as the subject of the message: `--out`, `the report`.

    Raises:
        UsageError: the directory is a broker's.
    """
    real = Path(os.path.realpath(Path(path).expanduser()))
    for directory in (real, *real.parents):
        if is_log_dir(directory) or _is_partition_folder(directory):
            raise UsageError(
                f"{what} {str(path)!r} is in {str(directory)!r}, which holds a broker's log",
                hint="give a directory outside of the broker's log.dirs: a broker dies of what it does not know there",
            )


def is_log_dir(directory: Path) -> bool:
    """Whether a broker keeps its logs in `directory`; not where this user may not look."""
    try:
        with os.scandir(directory) as entries:
            names = {entry.name for entry in entries}
    except OSError:
        return False
    if not names.isdisjoint(_AT_THE_TOP):
        return True
    return any(_is_partition_folder(directory / name) for name in names if split_folder_name(name))


def _is_partition_folder(directory: Path) -> bool:
    if split_folder_name(directory.name) is None:
        return False
    try:
        with os.scandir(directory) as entries:
            return any(_SEGMENT.fullmatch(entry.name) for entry in entries)
    except OSError:
        return False
