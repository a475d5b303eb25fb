"""Archives on the path of Spark's Python workers: read again if they changed, and only then."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from tiersnap.jobs.pipeline.worker_daemon import read_archives_once

pytestmark = pytest.mark.unit


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive on the path, with the patch of the daemon in force."""
    found = tmp_path / "modules.zip"
    write(found, "first_of_archive")
    monkeypatch.syspath_prepend(str(found))
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    read_archives_once()
    importlib.import_module("first_of_archive")
    importlib.invalidate_caches()
    yield found
    for name in ("first_of_archive", "second_of_archive"):
        sys.modules.pop(name, None)


def write(archive: Path, *modules: str) -> None:
    with zipfile.ZipFile(archive, "w") as file:
        for name in modules:
            file.writestr(f"{name}.py", "")


def test_read_archives_once_reads_nothing_when_no_archive_changed(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_directory = zipimport._read_directory
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or read_directory(path))
    importlib.invalidate_caches()
    assert read == []


def test_read_archives_once_finds_new_modules_when_an_archive_changed(archive: Path) -> None:
    write(archive, "first_of_archive", "second_of_archive")
    importlib.invalidate_caches()
    assert importlib.import_module("second_of_archive").__file__ == f"{archive}/second_of_archive.py"


def test_read_archives_once_forgets_an_archive_that_is_gone(archive: Path) -> None:
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("second_of_archive")
