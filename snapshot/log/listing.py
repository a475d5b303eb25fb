"""What lies in one folder, by name, kind, size and time, on any file system."""

from __future__ import annotations

import os
from typing import NamedTuple

from pyarrow import fs

from tiersnap.snapshot.regular_file import kind_of

FOLDER = "a folder"
_FIRST_NS, _LAST_NS = -(2**63), 2**63 - 1  # tables and metadata keep times as int64


class Entry(NamedTuple):
    r"""One name in a folder.

    Attributes:
        name: what is not UTF-8 in it is written as `\xff`: such a name is none of Kafka's, and is there to be shown.
        kind: None for a regular file, FOLDER for one or a link to one, else what it is in words.
        size: bytes; 0 for a folder.
        modified_ns: since the epoch; beyond what 64 bits hold (1677 to 2262) the nearest that they do.
    """

    name: str
    path: str
    kind: str | None
    size: int
    modified_ns: int


def list_folder(filesystem: fs.FileSystem, path: str) -> list[Entry]:
    """The entries of a folder, ascending by name. A file that vanishes meanwhile is left out.

    Raises:
        OSError: there is no such folder, or it may not be read.
    """
    if isinstance(filesystem, fs.LocalFileSystem):
        return sorted(_local(path))
    kinds = {fs.FileType.File: None, fs.FileType.Directory: FOLDER}
    return sorted(
        Entry(info.base_name, info.path, kinds.get(info.type, "of no known kind"), info.size or 0, info.mtime_ns or 0)
        for info in filesystem.get_file_info(fs.FileSelector(path))
    )


def _local(path: str) -> list[Entry]:
    entries = []
    with os.scandir(path) as found:
        for each in found:
            name = os.fsencode(each.name).decode("utf-8", "backslashreplace")
            try:
                status = each.stat(follow_symlinks=False)
            except OSError:
                continue
            # Partitions are laid to other disks by links; a file of one never is a link.
            kind = FOLDER if _is_folder(each) else kind_of(status.st_mode)
            size = 0 if kind == FOLDER else status.st_size
            modified_ns = min(max(status.st_mtime_ns, _FIRST_NS), _LAST_NS)
            entries.append(Entry(name, f"{path}/{name}", kind, size, modified_ns))
    return entries


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is one or a link to one; a link to itself is there, and is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_gone(filesystem: fs.FileSystem, path: str) -> bool:
    """Whether nothing lies there now, not even a link that leads nowhere."""
    if isinstance(filesystem, fs.LocalFileSystem):
        return not os.path.lexists(path)
    return bool(filesystem.get_file_info(path).type is fs.FileType.NotFound)
