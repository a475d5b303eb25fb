"""Which tests of a side tier run at a landing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import landing

pytestmark = pytest.mark.unit


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one file of the browser tier and one of no tier."""
    for name in ("snapshot/report/page.py", "docs/page.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("first")
    (tmp_path / ".ci").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def test_landing_runs_all_tests_when_no_pass_is_recorded(tree: Path) -> None:
    assert landing.selection(tree, "browser") == landing.ALL


def test_landing_runs_the_smoke_test_when_no_file_changed_since_the_pass(tree: Path) -> None:
    landing.record(tree, "browser")
    (tree / "docs/page.md").write_text("second")
    assert landing.selection(tree, "browser") == landing.SMOKE


@pytest.mark.parametrize("change", ["edit", "new file", "rename"])
def test_landing_runs_all_tests_when_a_file_of_the_tier_changed(tree: Path, change: str) -> None:
    landing.record(tree, "browser")
    page = tree / "snapshot/report/page.py"
    if change == "edit":
        page.write_text("second")
    elif change == "new file":
        (page.parent / "other.py").write_text("first")
    else:
        page.rename(page.parent / "other.py")
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    assert landing.selection(tree, "browser") == landing.ALL


def test_record_keeps_the_passes_of_other_tiers(tree: Path) -> None:
    landing.record(tree, "airflow")
    landing.record(tree, "browser")
    assert set(landing.passed(tree)) == {"airflow", "browser"}


def test_every_tier_names_files_that_exist() -> None:
    named = [landing.ROOT / path for paths in landing.FILES.values() for path in paths]
    assert [path for path in named if not path.exists()] == []
