"""`python -m tiersnap.jobs.make_class_archive`: makes the archive of Spark's classes; see class_archive.

`make install` calls it. It does nothing when there is one that fits.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tiersnap.jobs import session
from tiersnap.jobs.class_archive import NOT_TO_BE_HAD, archive, folder, is_whole, stem

_SECONDS = 300
# Each puts a folder on the class path: Java makes no archive with one that holds a file.
_FOLDERS_ON_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CHILD = "import sys; from jobs import make_class_archive; make_class_archive.run_session(sys.argv[1])"


def make() -> Path:
    """Run a small session for its classes; does nothing when there is an archive that fits.

    Raises:
        RuntimeError: it came to no archive.
    """
    found = archive()
    if found is not None:
        return found
    name = stem()
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as work:
        written = Path(work) / "classes.jsa"
        environment = {key: value for key, value in os.environ.items() if key not in _FOLDERS_ON_CLASS_PATH}
        # The JVM writes after the child has ended; it holds the child's stdout until it has.
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(written)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        if not written.exists():
            raise RuntimeError(f"the JVM wrote none: {done.stdout.strip()[-300:]}")
        with written.open("rb") as file:
            os.fsync(file.fileno())
        target = folder() / f"{name}-{written.stat().st_size}.jsa"
        written.replace(target)
    drop_others(target)
    return target


def drop_others(kept: Path) -> None:
    """Remove what was made for the same jars with other versions, or is not whole; a JVM that has mapped one keeps it.

    One that fits as well stays: two that make one at once would remove each other's.
    """
    fitting = kept.name.rsplit("-", 1)[0]
    for other in kept.parent.glob(f"{kept.name.split('-', 1)[0]}-*.jsa"):
        with contextlib.suppress(FileNotFoundError):
            if not (other.name.startswith(fitting) and is_whole(other)):
                other.unlink()


def run_session(written: str) -> None:
    """In a process of its own: what every job does on Spark, with a JVM that leaves its classes in `written`."""
    from pyspark import SparkContext

    options = f'{session.QUICK_START} -Xlog:disable -Xlog:all=error "-XX:ArchiveClassesAtExit={written}"'
    engine = session.spark_engine("local[2]", (f"spark.driver.extraJavaOptions={options}",))
    plan = pa.table({"path": ["a", "b"], "size": [1, 2], "parts": [[b"1"], []]})
    engine.map("classes", plan, _unchanged, plan.schema)
    SparkContext.getOrCreate().stop()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    try:
        print(f"Class archive: {make()}")  # noqa: T201
    except (*NOT_TO_BE_HAD, subprocess.SubprocessError) as error:
        print(f"Class archive: none, Spark starts without: {error}")  # noqa: T201
