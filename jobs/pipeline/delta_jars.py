"""Delta Lake's jars for Spark, resolved once into a folder, so that a session starts without the network.

`python -m tiersnap.jobs.pipeline.delta_jars` fills the folder. `make install` runs this command. The first session
that finds no jars fills the folder too. The jars run with all permissions of Spark, so each must have the SHA-256 that
conf/delta-jars.sha256 pins.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from tiersnap.jobs.pipeline.java import find_java
from tiersnap.snapshot.errors import MissingExtraError

_log = logging.getLogger(__name__)

_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="true"/></resolvers>
</ivysettings>
"""
_IVY_FILE = """<ivy-module version="2.0">
  <info organisation="tiersnap" module="delta"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.delta" name="{artifact}" rev="{revision}" conf="default->master,runtime"/>
  </dependencies>
</ivy-module>
"""
# Timeouts in ms. Without them a firewall that drops packets would delay the error for minutes.
_PATIENCE = ("-Dsun.net.client.defaultConnectTimeout=10000", "-Dsun.net.client.defaultReadTimeout=60000")


def artifact() -> tuple[str, str]:
    """Return name and version of the jar for the installed pyspark and delta-spark."""
    major, minor, *_ = version("pyspark").split(".")
    return f"delta-spark_{major}.{minor}_2.13", version("delta-spark")


def user_cache() -> Path:
    """Return tiersnap's cache folder. Everything in it can be deleted: tiersnap creates or fetches it again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiersnap"


def folder() -> Path:
    """Return the folder of the jars, in the folder TIERSNAP_JARS if that is set, else in the user's cache."""
    given = os.environ.get("TIERSNAP_JARS")
    name, revision = artifact()
    return Path(given or user_cache() / "jars", f"{name}-{revision}")


def jars() -> list[str]:
    """Return the paths of the resolved jars; an empty list before `install`."""
    return sorted(str(path) for path in folder().glob("*.jar"))


def are_named(settings: Mapping[str, str]) -> bool:
    """Return whether the settings name Delta's jar, or Spark's own folder of jars contains it."""
    for name in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"):
        if "delta-spark" in settings.get(name, ""):
            return True
    home = Path(os.environ.get("SPARK_HOME") or _pyspark() or "")
    return any(home.glob("jars/delta-spark_*.jar"))


def jars_for_session() -> list[str]:
    """Return the paths of the jars. If the folder has no jars, fetch them first.

    Raises:
        MissingExtraError: the jars cannot be fetched; the hint is the command that fetches them.
    """
    if not jars():
        _log.warning("downloading Delta Lake's jars from Maven Central into %s; this happens once", folder())
        try:
            install()
        except (OSError, RuntimeError) as error:
            _log.debug("Delta Lake's jars cannot be downloaded: %s", error)
            raise MissingExtraError(
                f"Delta Lake's jars, which Spark needs, could not be downloaded into {folder()}",
                hint=shlex.join([sys.executable, "-m", "tiersnap.jobs.pipeline.delta_jars"]),
            ) from error
    return jars()


def install() -> Path:
    """Return the folder of the jars, after a check of their hashes. If it has no jars, fetch them with pyspark's Ivy.

    Raises:
        RuntimeError: pyspark or Java is missing, Ivy fails, or a hash differs.
    """
    target = folder()
    if jars():
        check_hashes(target)
        return target
    pyspark, java = _pyspark(), find_java()
    if pyspark is None or java is None:
        raise RuntimeError("pyspark is not installed, or java is neither on the PATH nor below JAVA_HOME")
    ivy = next((pyspark / "jars").glob("ivy-*.jar"))
    name, revision = artifact()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name_of_work:
        work = Path(name_of_work)
        (work / "settings.xml").write_text(_IVY_SETTINGS, encoding="utf-8")
        (work / "ivy.xml").write_text(_IVY_FILE.format(artifact=name, revision=revision), encoding="utf-8")
        command = [
            *(java, *_PATIENCE, "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-confs", "default"),
            *("-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache")),
            *("-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not list((work / "jars").glob(f"{name}-*.jar")):
            raise RuntimeError(f"Ivy could not resolve {name}:{revision}: {done.stdout[-500:]}{done.stderr[-500:]}")
        _drop_what_spark_has(work / "jars", ivy.parent)
        check_hashes(work / "jars")
        try:
            (work / "jars").rename(target)
        except OSError:
            if not jars():  # another process may have filled the folder meanwhile
                raise
    _log.info("resolved %s:%s into %s", name, revision, target)
    return target


def _pyspark() -> Path | None:
    """Return the folder of the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def pinned() -> dict[str, str]:
    """Return the pinned SHA-256 (hexadecimal) by file name of the jar."""
    text = resources.files("tiersnap.conf").joinpath("delta-jars.sha256").read_text(encoding="utf-8")
    return {name: digest for digest, name in map(str.split, text.splitlines())}


def check_hashes(found: Path) -> None:
    """Raise RuntimeError if a jar of the folder is not pinned, or has another hash than the pinned one."""
    known = pinned()
    for jar in sorted(found.glob("*.jar")):
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        if known.get(jar.name) != digest:
            why = "another hash is pinned for this jar" if jar.name in known else "no jar of this name is pinned"
            raise RuntimeError(f"{jar}: the SHA-256 is {digest}, but {why} in conf/delta-jars.sha256")


def _drop_what_spark_has(resolved: Path, shipped: Path) -> None:
    """Delete the resolved jars of libraries that Spark ships. Spark needs the versions that it was built with."""
    names = {_name(jar) for jar in shipped.glob("*.jar")}
    for jar in resolved.glob("*.jar"):
        if _name(jar) in names:
            jar.unlink()


def _name(jar: Path) -> str:
    """Return the library name of a jar, such as `parquet-column` for parquet-column-1.16.0.jar."""
    return re.split(r"-(?=\d)", jar.stem, maxsplit=1)[0]


if __name__ == "__main__":
    try:
        print(f"Delta jars: {install()}")  # noqa: T201
    except RuntimeError as error:
        sys.exit(f"Delta jars: {error}\nWithout access to Maven Central, copy {folder()} from another host.")
