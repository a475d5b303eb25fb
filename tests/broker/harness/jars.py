"""Kafka's jars: resolved once by the Ivy inside pyspark, kept in `<repo>/.cache/kafka/<version>/`.

`python -m tests.broker.harness.jars [version ...]` fetches them ahead of the tests: without arguments VERSIONS, which
tests of every day need. The NIGHTLY ones are fetched by the tests that ask for them.
A folder is there whole or not at all: Ivy fills a folder of another name, which is renamed when nothing is missing. It
keeps the ivy file that it was made from, so that an edited one is resolved anew. The Aiven plugin is in its folder
`aiven-s3`: see compiled.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.broker.harness import compiled

IVY_FILES = Path(__file__).parent / "ivy"
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "kafka"
VERSIONS = ("2.7.2", "3.9.1", "4.1.1")
NIGHTLY = ("4.0.0", "4.0.1", "4.2.1", "4.3.1", "4.4.0")
TIMEOUT_S = 600
_MADE_FROM = "ivy.xml"
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


class JarsMissingError(Exception):
    """Raised when a jar set cannot be had; the text says why and what to run."""


def classpath(version: str) -> str:
    """Class path (with a wildcard) of Kafka `version`; raises as `folder` does."""
    return f"{folder(version)}/*"


@cache
def folder(version: str) -> Path:
    """Folder with the jars of Kafka `version`, resolved first where the cache lacks them.

    Raises:
        JarsMissingError: no Java, no Ivy, or a resolution that failed.
    """
    with _locked():
        if not _is_current(version):
            _resolve(version)
    return CACHE / version


@cache
def aiven_plugin(version: str) -> str:
    """Class path (with a wildcard) of the Aiven plugin for Kafka `version`, compiled first where the cache lacks it.

    Raises:
        JarsMissingError: TIERSNAP_AIVEN_SOURCE names no clone with the tag, or as `folder` does.
    """
    kafka = folder(version)
    plugin, partial = kafka / "aiven-s3", kafka / "aiven-s3.partial"
    clone = os.environ.get("TIERSNAP_AIVEN_SOURCE", "")
    with _locked():
        if not plugin.exists() and not clone:
            raise JarsMissingError("no TIERSNAP_AIVEN_SOURCE, a clone of Aiven-Open/tiered-storage-for-apache-kafka")
        if not plugin.exists():
            _retrieve(IVY_FILES / "aiven-1.0.0.xml", partial, "bcprov-jdk18on-1.80.jar")
            _compiled(lambda: compiled.compile_aiven_plugin(Path(clone), kafka, partial))
            partial.rename(plugin)
    return f"{plugin}/*"


@cache
def missing(*versions: str) -> str:
    """Why the first of `versions` that cannot be had cannot be had, empty when all are there; found out once."""
    try:
        if versions:
            _ensure_java()
        for version in versions:
            folder(version)
    except JarsMissingError as error:
        return str(error)
    return ""


def _is_current(version: str) -> bool:
    made_from = CACHE / version / _MADE_FROM
    return made_from.exists() and made_from.read_bytes() == _ivy_file(version).read_bytes()


def _ivy_file(version: str) -> Path:
    path = IVY_FILES / f"kafka-{version}.xml"
    if not path.exists():
        raise JarsMissingError(f"Kafka {version}: no {path.name}; known are {', '.join((*VERSIONS, *NIGHTLY))}")
    return path


def _ensure_java() -> None:
    absent = [program for program in ("java", "javac") if shutil.which(program) is None]
    if absent:
        raise JarsMissingError(f"no {' and no '.join(absent)} on the PATH: the broker tests need a JDK, 17 or later")


def _resolve(version: str) -> None:
    """Fill `<cache>/<version>` in one rename."""
    ivy_file = _ivy_file(version)
    _ensure_java()
    partial = CACHE / f"{version}.partial"
    _retrieve(ivy_file, partial, f"kafka_2.13-{version}.jar")
    for sources in partial.glob("*-test-sources.jar"):
        _compiled(lambda at=sources: compiled.compile_local_tiered_storage(at, partial))
    shutil.copy(ivy_file, partial / _MADE_FROM)
    shutil.rmtree(CACHE / version, ignore_errors=True)
    partial.rename(CACHE / version)


def _retrieve(ivy_file: Path, target: Path, wanted: str) -> None:
    """Fill the folder `target` with what `ivy_file` names, the jar `wanted` among it."""
    shutil.rmtree(target, ignore_errors=True)
    command = [
        *("java", "-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-warn", "-confs", "*"),
        *("-settings", str(IVY_FILES / "settings.xml"), "-ivy", str(ivy_file)),
        *("-cache", str(CACHE / "ivy"), "-retrieve", f"{target}/{_PATTERN}"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as expired:
        raise JarsMissingError(f"{ivy_file.stem}: jars not there after {TIMEOUT_S} s") from expired
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0 or not (target / wanted).exists():
        last = " | ".join(line.strip() for line in said.splitlines()[-3:])
        raise JarsMissingError(f"{ivy_file.stem}: Ivy could not resolve the jars from Maven Central ({last})")


def _compiled(compile_: Callable[[], None]) -> None:
    try:
        compile_()
    except subprocess.CalledProcessError as error:
        raise JarsMissingError(f"{error.cmd[0]}: {error.stderr.decode(errors='replace')[:500]}") from error


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise JarsMissingError("no Ivy to fetch Kafka's jars with: it comes inside pyspark (extra `spark`)")
    return found[-1]


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """One resolution at a time on this machine: Ivy's cache stands no second writer."""
    CACHE.mkdir(parents=True, exist_ok=True)
    handle = os.open(CACHE / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main(versions: list[str]) -> int:
    for version in versions or VERSIONS:
        began = time.monotonic()
        try:
            found = list(folder(version).glob("*.jar"))
        except JarsMissingError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"Kafka {version}: {len(found)} jars in {folder(version)} ({time.monotonic() - began:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
