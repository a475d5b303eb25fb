"""Delta Lake's jars for Spark: resolved once into a folder, so that no session asks the network when it starts.

`python -m tiersnap.jobs.pipeline.delta_jars` fills the folder; `make install` calls it. If it cannot, a session still
runs every job, but without `spark.read.format("delta")`. Each jar must have the hash that conf/delta-jars.sha256 pins:
they run with all that Spark may read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from importlib.metadata import version
from pathlib import Path

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


def artifact() -> tuple[str, str]:
    """Name and revision of the jar that goes with the installed pyspark and delta-spark."""
    major, minor, *_ = version("pyspark").split(".")
    return f"delta-spark_{major}.{minor}_2.13", version("delta-spark")


def user_cache() -> Path:
    """Return tiersnap's cache folder: whatever is in it can be made or fetched again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiersnap"


def folder() -> Path:
    """Return the folder of the jars: below TIERSNAP_JARS, or the user's cache."""
    given = os.environ.get("TIERSNAP_JARS")
    name, revision = artifact()
    return (Path(given) if given else user_cache() / "jars") / f"{name}-{revision}"


def jars() -> list[str]:
    """Paths of the resolved jars, none before `install`."""
    return sorted(str(path) for path in folder().glob("*.jar"))


def install() -> Path:
    """Resolve the jars through the Ivy inside pyspark, or check the hashes of those that are there; RuntimeError."""
    target = folder()
    if jars():
        check_hashes(target)
        return target
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or shutil.which("java") is None:
        raise RuntimeError("needs pyspark and java on the PATH")
    ivy = next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    name, revision = artifact()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name_of_work:
        work = Path(name_of_work)
        (work / "settings.xml").write_text(_IVY_SETTINGS, encoding="utf-8")
        (work / "ivy.xml").write_text(_IVY_FILE.format(artifact=name, revision=revision), encoding="utf-8")
        command = [
            *("java", "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-confs", "default"),
            *("-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache")),
            *("-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not list((work / "jars").glob(f"{name}-*.jar")):
            raise RuntimeError(f"Ivy could not resolve {name}:{revision}: {done.stdout[-500:]}{done.stderr[-500:]}")
        _drop_what_spark_has(work / "jars", ivy.parent)
        check_hashes(work / "jars")
        (work / "jars").rename(target)
    _log.info("resolved %s:%s into %s", name, revision, target)
    return target


def pinned() -> dict[str, str]:
    """SHA-256 by the name of the jar."""
    text = resources.files("tiersnap.conf").joinpath("delta-jars.sha256").read_text(encoding="utf-8")
    return {name: digest for digest, name in map(str.split, text.splitlines())}


def check_hashes(found: Path) -> None:
    """Refuse a folder in which a jar is not pinned, or has changed (RuntimeError)."""
    known = pinned()
    for jar in sorted(found.glob("*.jar")):
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        if known.get(jar.name) != digest:
            why = "another one is pinned" if jar.name in known else "none of that name is pinned"
            raise RuntimeError(f"{jar}: SHA-256 {digest}, and {why} in conf/delta-jars.sha256")


def _drop_what_spark_has(resolved: Path, shipped: Path) -> None:
    """Two versions of one library on a class path are one too many, and Spark's is the one it was built with."""
    names = {_name(jar) for jar in shipped.glob("*.jar")}
    for jar in resolved.glob("*.jar"):
        if _name(jar) in names:
            jar.unlink()


def _name(jar: Path) -> str:
    """`parquet-column` of parquet-column-1.16.0.jar."""
    return re.split(r"-(?=\d)", jar.stem, maxsplit=1)[0]


if __name__ == "__main__":
    try:
        print(f"Delta jars: {install()}")  # noqa: T201
    except RuntimeError as error:
        sys.exit(f"Delta jars: {error}")
