"""The Java that Spark's scripts would start."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from pathlib import Path

from tiersnap.snapshot.errors import MissingExtraError

_log = logging.getLogger(__name__)

_OLDEST = 17


def find_java() -> str | None:
    """Return the path of Java: below JAVA_HOME if that is set, else on the PATH; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")


def check_java() -> None:
    """Refuse a host without Java, or with one older than 17 (MissingExtraError)."""
    hint = "install Java 17 or 21; one host needs none: tiersnap tier LOGDIR --remote URI"
    java, home = find_java(), os.environ.get("JAVA_HOME")
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH, and no JAVA_HOME"
        raise MissingExtraError(f"Spark needs Java: {where}", hint=hint)
    release = _release(java)
    if release is not None and release < _OLDEST:
        raise MissingExtraError(f"Spark needs Java 17 or 21: {java} is Java {release}", hint=hint)


def _release(java: str) -> int | None:
    """Return the feature release of a Java, None if it does not print one."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    _log.debug("%s prints %r", java, done.stderr)
    return None if found is None else int(found[1])
