"""A session of Spark on an archive of its classes, with what the JVM itself says of where they come from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiersnap.jobs import make_class_archive

pytestmark = pytest.mark.spark

SESSION = """
import pyarrow as pa
from tiersnap.jobs.session import spark_engine

def unchanged(batches):
    yield from batches

plan = pa.table({"a": [1, 2, 3]})
assert sorted(spark_engine("local[1]", ()).map("look", plan, unchanged, plan.schema)["a"].to_pylist()) == [1, 2, 3]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("a cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        return make_class_archive.make()


def shared_classes_of_a_session(cache: Path, logs: Path) -> int:
    """How many classes came from the archive; the session ran and its JVM wrote nothing on stdout."""
    logs.mkdir()
    # The last word among the JVM's options; a launcher's JVM comes before the session's, each with its own file.
    environment = {"XDG_CACHE_HOME": str(cache), "_JAVA_OPTIONS": f"-Xlog:class+load:file={logs}/%p.log"}
    done = subprocess.run(
        [sys.executable, "-c", SESSION], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return sum(path.read_text().count("shared objects file (top)") for path in logs.iterdir())


def test_a_session_takes_its_classes_from_the_archive(made: Path, tmp_path: Path) -> None:
    assert shared_classes_of_a_session(made.parents[2], tmp_path / "logs") > 3000


@pytest.mark.parametrize("damage", ["cut short", "zeroes inside"])
def test_a_session_starts_without_a_damaged_archive(damage: str, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "cache" / made.relative_to(made.parents[2])
    path.parent.mkdir(parents=True)
    shutil.copyfile(made, path)
    middle = path.stat().st_size // 2
    if damage == "cut short":
        os.truncate(path, middle)
    else:
        with path.open("r+b") as file:
            file.seek(middle)
            file.write(bytes(2_000_000))
    assert shared_classes_of_a_session(tmp_path / "cache", tmp_path / "logs") == 0
