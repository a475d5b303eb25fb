"""One producer snapshot file of the local disk read or written, for scripts and notebooks."""

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
    """Return the entries of a `.snapshot` file: an array of shape (producers,), ascending producer id.

    Its dtype is ENTRY_DTYPE (formats.snapshot_file): times in ms since the epoch, -1 for none.

    Args:
        path: a file on this host; a link is followed.

    Raises:
        SourceNotFoundError: the file does not exist, or this user may not read it.
        CorruptSnapshotError: Kafka's reader would refuse it (ProducerStateManager.readSnapshot).
    """
    try:
        data = read_regular(path, follow=True)
    except OSError as error:
        raise SourceNotFoundError(
            f"{os.fspath(path)}: {error.strerror or error}", hint="give the path of one .snapshot file"
        ) from error
    return snapshot_file.decode(data, name=os.fspath(path))


def write_snapshot(path: str | os.PathLike[str], entries: np.ndarray, *, replace: bool = False) -> bool:
    """Write entries as a `.snapshot` file that appears completely or not at all.

    Args:
        path: path of the file; its folder must exist, and must not be a broker's.
        entries: shape (producers,), dtype ENTRY_DTYPE, any order; one for each producer.
        replace: replace an existing file; otherwise it stays.

    Returns:
        Whether the file was written.

    Raises:
        UsageError: the folder is a broker's, which only `tiersnap repair` writes, or this user may not write there.
        TransientError: the disk is full.
    """
    refuse_log_dir(Path(path).parent, "a snapshot for")
    return write_atomically(Path(path), snapshot_file.encode(entries), replace=replace)
