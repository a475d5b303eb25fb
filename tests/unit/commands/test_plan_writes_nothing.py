"""A plan of `repair`, `collect` and `tier` changes no file of the host, of remote storage or of shared storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.situations import NOW, SITUATIONS, CannotBeLaidOutError, Site

pytestmark = pytest.mark.unit


def files_of(*folders: Path) -> dict[str, tuple[int, int]]:
    """Modification time (ns) and size of each file and folder."""
    found = {path: path.lstat() for folder in folders for path in folder.rglob("*")}
    return {str(path): (each.st_mtime_ns, each.st_size) for path, each in found.items()}


def plans_of(site: Site) -> list[tuple[object, ...]]:
    return [
        ("repair", *site.log_dirs, *NOW),
        ("repair", *site.log_dirs, *NOW, "--replace", "--remote", site.remote),
        ("collect", *site.log_dirs, "--to", site.remote / "collected", *NOW),
        ("tier", *site.log_dirs, "--remote", site.remote, *NOW),
    ]


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_plan_changes_no_file_of_a_host(name: str, tmp_path: Path) -> None:
    try:
        with SITUATIONS[name](tmp_path) as site:
            before = files_of(tmp_path)
            for words in plans_of(site):
                ran = tiersnap(*words)
                assert "Traceback" not in ran.err, ran.err
                assert files_of(tmp_path) == before, words
    except CannotBeLaidOutError as error:
        pytest.skip(str(error))
