"""A producer snapshot file at a boundary: its entries, or what to say where none can be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.regular_file import FileTooLargeError
from tiersnap.snapshot.replay.trust import Comparison, SnapshotVerdict

ReadSnapshot = Callable[[int], bytes | None]
"""Bytes of the file at an offset, None where there is none; may raise OSError."""


def found_at(offset: int, read_snapshot: ReadSnapshot) -> np.ndarray | Comparison:
    """Entries (ENTRY_DTYPE) of the file at a boundary, or what to say where none can be read."""
    name = snapshot_file.file_name(offset)
    try:
        found = read_snapshot(offset)
        if found is None:
            return Comparison(SnapshotVerdict.MISSING, f"no {name}")
        return snapshot_file.decode(found, name=name)
    except FileNotFoundError:
        return Comparison(SnapshotVerdict.MISSING, f"{name} is gone since it was listed")
    except FileTooLargeError as error:
        return Comparison(SnapshotVerdict.CORRUPT, f"{name}: {error.strerror}")
    except OSError as error:
        return Comparison(SnapshotVerdict.UNVERIFIED, f"{name}: {error.strerror or error}")
    except CorruptSnapshotError as error:
        return Comparison(SnapshotVerdict.CORRUPT, error.message)
