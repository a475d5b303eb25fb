"""A producer snapshot file at a boundary: its entries, or what to say where none can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.regular_file import FileTooLargeError
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.replay.trust import Comparison

ReadSnapshot = Callable[[int], bytes | None]
"""Bytes of the file at an offset, None where there is none; may raise OSError."""


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """The bytes of a snapshot file that was found.

    Attributes:
        size, crc32c: of the whole file; None where there is none, or it could not be read.
        not_read: why it could not be read; None where it could, or is not there.
    """

    size: int | None = None
    crc32c: int | None = None
    not_read: str | None = None


NO_FILE = SnapshotFile()


@dataclass(frozen=True, slots=True, eq=False)
class FoundSnapshot:
    """What lies at a snapshot offset.

    Attributes:
        comparison: what to say where no entries can be read.
        entries: ENTRY_DTYPE, ascending producer id; None where none can be read.
    """

    file: SnapshotFile
    comparison: Comparison
    entries: np.ndarray | None = None


_NOT_COMPARED = Comparison(SnapshotVerdict.UNVERIFIED, "not compared yet")


def found_at(offset: int, read_snapshot: ReadSnapshot) -> FoundSnapshot:
    """Return the entries of the file at an offset, or what to say where none can be read."""
    name = snapshot_file.file_name(offset)
    file = NO_FILE
    try:
        data = read_snapshot(offset)
        if data is None:
            return FoundSnapshot(file, Comparison(SnapshotVerdict.MISSING, f"no {name}"))
        file = SnapshotFile(len(data), crc32c(data))
        return FoundSnapshot(file, _NOT_COMPARED, snapshot_file.decode(data, name=name))
    except CorruptSnapshotError as error:
        return FoundSnapshot(file, Comparison(SnapshotVerdict.CORRUPT, error.message))
    except OSError as error:
        return FoundSnapshot(SnapshotFile(not_read=why_not_read(error)), _of_unread(name, error))


def why_not_read(error: OSError) -> str:
    """Return what is remembered of a failure."""
    return error.strerror or str(error)


def _of_unread(name: str, error: OSError) -> Comparison:
    if isinstance(error, FileNotFoundError):
        return Comparison(SnapshotVerdict.MISSING, f"{name} is gone since it was listed")
    if isinstance(error, FileTooLargeError):
        return Comparison(SnapshotVerdict.CORRUPT, f"{name}: {error.strerror}")
    return Comparison(SnapshotVerdict.UNVERIFIED, f"{name}: {why_not_read(error)}")
