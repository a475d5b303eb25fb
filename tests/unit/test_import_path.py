"""The folders of the checkout can be imported below `tiersnap` only; a second copy would have classes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
FOLDERS = ("snapshot", "remote_storage", "jobs", "conf")
IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module
import tiersnap
for module in pkgutil.walk_packages(tiersnap.__path__, "tiersnap."):
    if not module.name.startswith("tiersnap.jobs.airflow."):
        import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(tiersnap.snapshot.__file__)
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_the_checkout_is_no_package_of_its_own(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, f"import {name}")
    assert done.returncode == 1
    assert done.stderr.endswith(f"ModuleNotFoundError: No module named '{name}'\n")


def test_the_package_is_imported_from_any_folder_by_one_path(tmp_path: Path) -> None:
    code = "import tiersnap.snapshot, tiersnap.jobs; print(tiersnap.snapshot.__file__)"
    elsewhere, at_the_root = run(tmp_path, code), run(ROOT, code)
    assert (elsewhere.returncode, at_the_root.returncode) == (0, 0), elsewhere.stderr + at_the_root.stderr
    assert elsewhere.stdout == at_the_root.stdout


def test_no_module_imports_a_second_copy_when_run_at_the_root() -> None:
    done = run(ROOT, IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    assert "tiersnap" in names
    assert not {*FOLDERS, "tests"} & set(names)
