"""The module for `spark.python.daemon.module`: the process that forks PySpark's Python workers.

PySpark calls `importlib.invalidate_caches()` before each task. Python then reads the directory of every archive on its
path (pyspark.zip, jars) again, which takes 120 to 150 ms per task on Python 3.11. This module makes Python read an
archive again only if its file has changed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from zipimport import zipimporter

from pyspark.daemon import manager

Stamp = tuple[int, int]


def read_archives_once() -> None:
    """Patch zipimporter in this process and its forks: it reads an archive again only if size or time changed."""
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
    """Return size (bytes) and modification time (ns) of a file; None if it does not exist."""
    try:
        found = Path(archive).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


if __name__ == "__main__":
    read_archives_once()
    importlib.invalidate_caches()  # once, for all workers that are forked from here
    manager()
