"""Spark's classes as the JVM keeps them in memory, in a file: a local session that maps it starts much sooner.

Most of a session's start is the JVM reading, verifying and linking classes. With class data sharing (JEP 350, Java 13
and newer) it writes at its end those that it has loaded, and the next one maps them. `make_class_archive` makes
the file, about 63 MB. It is only comfort: without it everything runs, later.

The JVM takes an archive only if its own class path begins with the one that the archive was made with, jar by jar, and
it goes on without one otherwise. Delta's jars come first in a session that has them, so those start as they always did.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tiersnap.jobs import delta_jars

_OLDEST_JAVA = 13
NOT_TO_BE_HAD = (OSError, RuntimeError, PackageNotFoundError)


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
        return next((path for path in folder().glob(f"{stem()}-*.jsa") if is_whole(path)), None)
    except NOT_TO_BE_HAD:
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


def is_whole(path: Path) -> bool:
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
