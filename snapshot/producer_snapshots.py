"""Read and write one local producer snapshot file, for scripts and notebooks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tiersnap.snapshot.atomic_file import write_atomically
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir
from tiersnap.snapshot.regular_file import read_regular


def read_snapshot(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the entries of a `.snapshot` file: an array of shape (producers,), in ascending producer id.

    The dtype is ENTRY_DTYPE (formats.snapshot_file). Timestamps are ms since the epoch; -1 means no timestamp.

    Args:
        path: local path; a symbolic link is followed.

    Raises:
        SourceNotFoundError: the file does not exist, or this user may not read it.
        CorruptSnapshotError: Kafka's reader would refuse the file (ProducerStateManager.readSnapshot).
    """
    try:
        data = read_regular(path, follow=True)
    except OSError as error:
        raise SourceNotFoundError(
            f"{os.fspath(path)}: {error.strerror or error}", hint="give the path of a .snapshot file"
        ) from error
    return snapshot_file.decode(data, name=os.fspath(path))


def write_snapshot(path: str | os.PathLike[str], entries: np.ndarray, *, replace: bool = False) -> bool:
    """Write entries to a `.snapshot` file. If the write fails, no partial file appears.

    Args:
        path: path of the new file; its folder must exist and must not be in a broker's log directory.
        entries: shape (producers,), dtype ENTRY_DTYPE, in any order, with one entry per producer.
        replace: whether to replace an existing file.

    Returns:
        False if `path` exists and `replace` is False, else True.

    Raises:
        UsageError: the folder is in a broker's log directory (use `tiersnap repair`), or this user may not write to it.
        TransientError: the disk is full.
    """
    refuse_log_dir(Path(path).parent, "a snapshot for")
    return write_atomically(Path(path), snapshot_file.encode(entries), replace=replace)
