"""The Java that Spark's start scripts find."""

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
    """Return the path of java, from JAVA_HOME if that is set, else from the PATH; None if no java is found."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")


def check_java() -> None:
    """Raise MissingExtraError if this host has no Java, or one older than 17."""
    hint = "install Java 17 or 21; or upload from one host, without Spark: tiersnap tier LOGDIR --remote URI"
    java, home = find_java(), os.environ.get("JAVA_HOME")
    if java is None:
        where = "no java on the PATH, and no JAVA_HOME"
        if home:
            where = f"JAVA_HOME is {home}, and that folder has no bin/java"
        raise MissingExtraError(f"Spark needs Java: {where}", hint=hint)
    release = _release(java)
    if release is not None and release < _OLDEST:
        raise MissingExtraError(f"Spark needs Java 17 or 21, but {java} is Java {release}", hint=hint)


def _release(java: str) -> int | None:
    """Return the feature release, such as 17; None if `java -version` prints none."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    _log.debug("%s prints %r", java, done.stderr)
    return None if found is None else int(found[1])
