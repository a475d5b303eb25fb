"""`spark.python.daemon.module` of a local run: the process that Python workers are forked from, made ready.

The workers inherit what is loaded here: numba, pyarrow and the compiled loops, most of a second for each of them. And
they do without the archives that PySpark puts on the path of its workers, since the same packages are installed beside
us: Python lists each of them anew before each task, in all a tenth of a second every time.
"""

from __future__ import annotations

import gc
import importlib.util
import re
import sys

from tiersnap.snapshot.without_pandas import without_pandas

_ARCHIVE_OF_SPARK = re.compile(r".*(/pyspark\.zip|/py4j-[^/]*-src\.zip|\.jar)")


def _forget_archives() -> None:
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if not _ARCHIVE_OF_SPARK.fullmatch(entry)]
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("py4j") is None:
        sys.path[:] = path
        return
    for entry in [entry for entry in sys.path_importer_cache if _ARCHIVE_OF_SPARK.fullmatch(entry)]:
        del sys.path_importer_cache[entry]


def main() -> None:
    """Load, then serve forks as PySpark's own daemon does."""
    _forget_archives()
    without_pandas()
    from pyspark import daemon

    from tiersnap.snapshot.log.segment_scan import load_kernels

    load_kernels()
    # PySpark collects garbage after each task, and none of this will ever be any.
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
