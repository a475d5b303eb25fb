"""Access to log directories on file systems that pyarrow supports: s3:, hdfs:."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, cast

from pyarrow import fs

from tiersnap.snapshot.log.file_system import FOLDER, Entry


def _kind(found: fs.FileType) -> str | None:
    kinds: dict[fs.FileType, str | None] = {fs.FileType.File: None, fs.FileType.Directory: FOLDER}
    return kinds.get(found, "of unknown kind")


def _entry(found: fs.FileInfo) -> Entry:
    return Entry(found.base_name, found.path, _kind(found.type), found.size or 0, found.mtime_ns or 0)


@dataclass(frozen=True)
class ArrowFileSystem:
    """A file system of pyarrow, with the methods of file_system.FileSystem."""

    arrow: fs.FileSystem
    is_local = False

    def list_folder(self, path: str) -> list[Entry]:
        """See FileSystem."""
        return sorted(map(_entry, self.arrow.get_file_info(fs.FileSelector(path))))

    def is_gone(self, path: str) -> bool:
        """See FileSystem."""
        return bool(self.arrow.get_file_info(path).type is fs.FileType.NotFound)

    def size_of(self, path: str) -> int | None:
        """See FileSystem."""
        found = self.arrow.get_file_info(path)
        return found.size if found.type is fs.FileType.File else None

    def open(self, path: str) -> BinaryIO:
        """See FileSystem."""
        return cast(BinaryIO, self.arrow.open_input_file(path))
