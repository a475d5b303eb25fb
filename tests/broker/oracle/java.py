"""Short Java programs on Kafka's jars: run to their end, output returned."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.broker.harness import jars

# Logs never go to stdout: log4j 1 of Kafka 3.9 would, by the configuration in its jar.
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dlog4j.defaultInitOverride=true")
FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *LOGGING)
_NO_INTERNALS = Path(__file__).with_name("NoInternals.java")
SECONDS = 600  # on a machine with much else to do


class JavaProgramError(AssertionError):
    """Raised when a program ends with an error; carries what it said."""


def run_java(version: str, main: str, args: Sequence[str], *, classes: Path | None = None) -> str:
    """Standard output of `main` on Kafka `version`'s jars, and on `classes` where given.

    Raises:
        JavaProgramError: it returned anything but 0.
    """
    path = os.pathsep.join(filter(None, (str(classes or ""), jars.classpath(version))))
    return _run(["java", *FLAGS, "-cp", path, main, *args])


def compiled(source: Path, version: str) -> Path:
    """Folder with the classes of `source`, compiled once against Kafka `version`'s jars and kept beside them."""
    sources = [source, _NO_INTERNALS]
    content = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    target = jars.folder(version) / f"{source.stem}-{content}"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}.partial")
        _run(
            [
                "javac",
                "-Xlint:all,-classfile,-processing",
                "-Werror",
                "-d",
                str(partial),
                "-cp",
                jars.classpath(version),
                *map(str, sources),
            ]
        )
        try:
            partial.rename(target)
        except OSError:  # somebody else was faster
            shutil.rmtree(partial)
    return target


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise JavaProgramError(f"{command[-2:]} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout
