"""Spark's classes as the JVM keeps them in memory, in a file: a local session that maps it starts much sooner.

Most of a session's start is the JVM reading, verifying and linking classes. With class data sharing (JEP 350, Java 13
and newer) it writes at its end those that it has loaded, and the next one maps them. `python -m jobs.class_archive`
makes the file, about 63 MB; `make install` calls it. It is only comfort: without it everything runs, later.

The JVM takes an archive only if its own class path begins with the one that the archive was made with, jar by jar, and
it goes on without one otherwise. Delta's jars come first in a session that has them, so those start as they always did.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyarrow as pa

from jobs import delta_jars

_OLDEST_JAVA = 13
_SECONDS = 300
_NOT_TO_BE_HAD = (OSError, RuntimeError, PackageNotFoundError)
# Each puts a folder on the class path: Java makes no archive with one that holds a file.
_FOLDERS_ON_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CHILD = "import sys; from jobs import class_archive; class_archive.run_session(sys.argv[1])"


def java_options() -> str:
    """Options of a JVM that uses the archive if there is one that fits, else none.

    The JVM says on stdout what it has against an archive, and stdout is where `--output json` goes. It does not look
    for itself whether the file is damaged, and dies of it.
    """
    found = archive()
    if found is None:
        return ""
    return f'-Xlog:disable -Xlog:all=warning,cds*=off:stderr "-XX:SharedArchiveFile={found}" -XX:+VerifySharedSpaces'


def archive() -> Path | None:
    """The archive for this Java and this Spark; None before `make`."""
    try:
        return next((path for path in folder().glob(f"{stem()}-*.jsa") if _is_whole(path)), None)
    except _NOT_TO_BE_HAD:
        return None


def folder() -> Path:
    """Where archives are."""
    return delta_jars.user_cache() / "classes"


def stem() -> str:
    """What the name of an archive that fits begins with; its size follows.

    Raises:
        RuntimeError: this Java or this Spark can have none.
    """
    java, jars = _java_home(), _jars()
    try:
        release = (java / "release").read_text(encoding="utf-8")
    except OSError as error:
        raise RuntimeError("no Java with a file `release`, by JAVA_HOME or the PATH") from error
    said = re.search(r'^JAVA_VERSION="((\d+)[\w.+-]*)"', release, re.MULTILINE)
    if said is None or int(said[2]) < _OLDEST_JAVA:
        raise RuntimeError(f"Java {said[1] if said else 'of no known version'}, and it takes {_OLDEST_JAVA}")
    # A jar that was added or installed anew changes the folder's time, and its own time is one that Java compares.
    rest = _digest(str(java), release, str(jars.stat().st_mtime_ns))
    return f"{_digest(str(jars))}-spark-{version('pyspark')}-java-{said[1]}-{rest}"


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
            if not (other.name.startswith(fitting) and _is_whole(other)):
                other.unlink()


def run_session(written: str) -> None:
    """In a process of its own: what every job does on Spark, with a JVM that leaves its classes in `written`."""
    from pyspark import SparkContext

    from jobs import session

    options = f'{session.QUICK_START} -Xlog:disable -Xlog:all=error "-XX:ArchiveClassesAtExit={written}"'
    engine = session.spark_engine("local[2]", (f"spark.driver.extraJavaOptions={options}",))
    plan = pa.table({"path": ["a", "b"], "size": [1, 2], "parts": [[b"1"], []]})
    engine.map("classes", plan, _unchanged, plan.schema)
    SparkContext.getOrCreate().stop()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _is_whole(path: Path) -> bool:
    """Java dies of an archive that has been cut short."""
    return str(path.stat().st_size) == path.stem.rsplit("-", 1)[1]


def _java_home() -> Path:
    """The Java that Spark's scripts take."""
    given = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    if given:
        return Path(given)
    if on_path is None:
        raise RuntimeError("no Java")
    return Path(on_path).resolve().parent.parent


def _jars() -> Path:
    """The jars that Spark's scripts put on the class path."""
    given = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("no pyspark")
    return (Path(given) if given else Path(spec.origin).parent) / "jars"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


if __name__ == "__main__":
    try:
        print(f"Class archive: {make()}")  # noqa: T201
    except (*_NOT_TO_BE_HAD, subprocess.SubprocessError) as error:
        print(f"Class archive: none, Spark starts without: {error}")  # noqa: T201
