"""`spark.python.daemon.module` of a local session: the process that Python workers are forked from, made ready.

The workers inherit what is loaded here: numba, pyarrow and the compiled loops, most of a second for each of them. And
they do without the jar of Spark that PySpark puts on the path of its workers: Python lists that archive anew before
each task, a tenth of a second every time.
"""

from __future__ import annotations

import sys

from snapshot.without_pandas import without_pandas


def _forget_jars() -> None:
    jars = [entry for entry in sys.path if entry.endswith(".jar")]
    for jar in jars:
        sys.path.remove(jar)
        sys.path_importer_cache.pop(jar, None)


def main() -> None:
    """Load, then serve forks as PySpark's own daemon does."""
    _forget_jars()
    without_pandas()
    from pyspark import daemon

    from snapshot.segment_scan import load_kernels
    from snapshot.stages import carry_partitions, decode  # noqa: F401

    load_kernels()
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
