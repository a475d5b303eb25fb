"""The process that forks PySpark's Python workers, by the name of `spark.python.daemon.module`.

Before each task PySpark calls `importlib.invalidate_caches()`, and every archive on Python's path (pyspark.zip, a jar)
reads its directory again: 120 to 150 ms a task on Python 3.11. Here an archive is read again if its file has changed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from zipimport import zipimporter

from pyspark.daemon import manager

Stamp = tuple[int, int]


def read_archives_once() -> None:
    """Make each zipimporter of this process and its forks keep its directory while size and time of its file stay."""
    read_again = zipimporter.invalidate_caches
    known: dict[tuple[str, str], Stamp] = {}

    def invalidate_caches(self: zipimporter) -> None:
        key, stamp = (self.archive, self.prefix), _stamp(self.archive)
        if stamp is None or known.get(key) != stamp:
            read_again(self)
        if stamp is not None:
            known[key] = stamp

    zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign]


def _stamp(archive: str) -> Stamp | None:
    """Return size (bytes) and modification time (ns) of a file, None where there is none."""
    try:
        found = Path(archive).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


if __name__ == "__main__":
    read_archives_once()
    importlib.invalidate_caches()  # once, for all workers that are forked from here
    manager()
