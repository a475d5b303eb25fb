"""Which archive of Spark's classes fits, and which is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiersnap.jobs import class_archive, make_class_archive

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java, a Spark and a cache of the test's own."""
    (tmp_path / "spark/jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "17.0.15")))
    return tmp_path


def java(machine: Path, version: str) -> Path:
    home = machine / f"java-{version}"
    home.mkdir(exist_ok=True)
    (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\nMODULES="java.base"\n')
    return home


def put_archive(name: str | None = None, *, size: int = 10, said: int = 10) -> Path:
    path = class_archive.folder() / f"{name or class_archive.stem()}-{said}.jsa"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return path


def test_there_is_none_before_it_is_made_and_the_jvm_gets_no_options():
    assert class_archive.archive() is None
    assert class_archive.java_options() == ""


def test_the_one_that_fits_is_found_and_given_to_the_jvm():
    path = put_archive()
    assert class_archive.archive() == path
    assert f'"-XX:SharedArchiveFile={path}"' in class_archive.java_options()


def test_its_name_says_for_which_spark_and_which_java():
    assert "-spark-4.1." in class_archive.stem()
    assert "-java-17.0.15-" in class_archive.stem()


def test_one_that_was_cut_short_is_none():
    put_archive(size=9)
    assert class_archive.archive() is None


def test_another_java_has_another(machine: Path, monkeypatch: pytest.MonkeyPatch):
    put_archive()
    monkeypatch.setenv("JAVA_HOME", str(java(machine, "21")))
    assert class_archive.archive() is None


def test_a_java_that_was_updated_in_place_has_another(machine: Path):
    put_archive()
    with (machine / "java-17.0.15/release").open("a") as release:
        release.write('JAVA_RUNTIME_VERSION="17.0.15+7"\n')
    assert class_archive.archive() is None


def test_another_folder_of_jars_and_one_more_jar_have_another(machine: Path, monkeypatch: pytest.MonkeyPatch):
    put_archive()
    (machine / "spark/jars/plugin.jar").touch()
    assert class_archive.archive() is None
    put_archive()
    (machine / "other/jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(machine / "other"))
    assert class_archive.archive() is None


@pytest.mark.parametrize("version", ["1.8.0_452", "11.0.27", "12"])
def test_a_java_that_is_too_old_is_named(version: str, machine: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(java(machine, version)))
    with pytest.raises(RuntimeError, match=f"Java {version}, and it takes 13"):
        make_class_archive.make()
    assert class_archive.archive() is None


def test_without_java_the_command_says_so_and_is_content(machine: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(machine / "nowhere"))
    done = subprocess.run(
        [sys.executable, "-m", "tiersnap.jobs.make_class_archive"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Class archive: none, Spark starts without: no Java")


def test_java_is_found_by_the_path_through_links(machine: Path, monkeypatch: pytest.MonkeyPatch):
    by_home = class_archive.stem()
    binary = machine / "java-17.0.15/bin/java"
    binary.parent.mkdir()
    binary.touch(mode=0o755)
    (machine / "bin").mkdir()
    (machine / "bin/java").symlink_to(binary)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(machine / "bin"))
    assert class_archive.stem() == by_home


def test_making_it_does_nothing_when_it_is_there():
    path = put_archive()
    assert make_class_archive.make() == path


def test_what_was_made_for_other_versions_of_the_same_spark_is_dropped():
    place = class_archive.stem().split("-", 1)[0]
    kept = put_archive()
    old = put_archive(f"{place}-spark-4.0.1-java-17.0.15-0123")
    cut = put_archive(said=11)
    foreign = put_archive("ffffffffffff-spark-4.1.1-java-17.0.15-0123")
    made_meanwhile = put_archive(size=12, said=12)
    make_class_archive.drop_others(kept)
    assert [path.exists() for path in (kept, old, cut, foreign)] == [True, False, False, True]
    assert made_meanwhile.exists()
