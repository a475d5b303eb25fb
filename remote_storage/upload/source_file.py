"""A file of a segment where it lies: on a broker's disk, in S3, on HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tiersnap.remote_storage.stores.object_store import ByteSource
from tiersnap.snapshot.errors import TransientError, UsageError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file and the `size` in bytes that the scan found; nothing else is taken for the same file."""

    filesystem: FileSystem
    path: str
    size: int

    def check_unchanged(self) -> None:
        """Ask the file system for the size again.

        Raises:
            TransientError: the file is gone, or grew or shrank: retention, a restarted broker, another replica.
        """
        with self._reading():
            size = self.filesystem.size_of(self.path)
        if size is None:
            raise self._changed("it is gone")
        if size != self.size:
            raise self._changed(f"it has {count_of(size, 'byte')} and had {self.size}")

    @contextmanager
    def open(self) -> Iterator[ByteSource]:
        """The file, to be read in pieces.

        Raises:
            TransientError: it cannot be read; also of any other OSError inside the `with`.
            UsageError: it may not be read.
        """
        with self._reading(), self.filesystem.open(self.path) as file:
            yield file

    def read(self) -> bytes:
        """All of it; for indexes.

        Raises:
            TransientError: it cannot be read, or does not have `size` bytes.
        """
        with self.open() as file:
            data = file.read(self.size + 1)
        if len(data) != self.size:
            raise self._changed(f"it has not the {count_of(self.size, 'byte')} of before")
        return data

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self._changed("it is gone") from error
        except PermissionError as error:
            raise UsageError(f"{self.path}: not readable: {error}", hint="run as the broker's user") from error
        except OSError as error:
            raise TransientError(f"{self.path}: {error}", hint="run the same command again", path=self.path) from error

    def _changed(self, how: str) -> TransientError:
        return TransientError(
            f"segment changed: {self.path}: {how}", hint="scan again, then run the same command", path=self.path
        )
