"""A user who can write nowhere but in the temporary directory can import the kernels."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import tiersnap
from tests.reference.privileges import run_obeying_modes
from tiersnap.snapshot import kernels

pytestmark = pytest.mark.unit

KERNELS = Path(kernels.__file__ or "").parent
COMPILED = sorted(
    {name for path in KERNELS.glob("*.py") for name in re.findall(r"snapshot\.formats\.(\w+) import", path.read_text())}
    | {"record_batch"}  # as a whole: `from … import record_batch`
)
KEPT = (
    "__init__.py",
    "snapshot/__init__.py",
    "snapshot/kernels/__init__.py",
    "snapshot/kernels/cache.py",
    *(f"snapshot/formats/{name}.py" for name in COMPILED),
)
ASK = "from tiersnap.snapshot.kernels import cache; print(cache.folder())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package, which cannot be written to, as one installed by somebody else."""
    ours = Path(tiersnap.__file__).parent
    package = tmp_path / "site/tiersnap"
    for name in KEPT:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ours / name, package / name)
    (package / "snapshot/kernels").chmod(0o555)
    return package.parent


def place_found(installed: Path, **variables: str) -> str:
    done = run_obeying_modes("-B", "-c", ASK, cwd=installed, env={"TMPDIR": str(installed.parent), **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_user_without_a_writable_home_gets_a_folder_of_his_own(installed):
    (installed.parent / "home").mkdir(mode=0o555)

    found = place_found(installed, HOME=str(installed.parent / "home"))

    assert Path(found).parent == installed.parent / f"tiersnap-kernels-{os.geteuid()}"
    assert Path(found).parent.stat().st_mode & 0o777 == 0o700
    assert place_found(installed, HOME=str(installed.parent / "home")) == found, "and the same one again"


def test_a_folder_that_others_can_write_to_is_not_used(installed):
    (installed.parent / "home").mkdir(mode=0o555)
    foreign = installed.parent / f"tiersnap-kernels-{os.geteuid()}"
    foreign.mkdir()
    foreign.chmod(0o777)

    found = place_found(installed, HOME=str(installed.parent / "home"))

    assert Path(found).parent != foreign
    assert Path(found).parent.stat().st_mode & 0o777 == 0o700


def test_a_writable_home_keeps_them_where_numba_would(installed):
    found = Path(place_found(installed, HOME=str(installed.parent)))
    assert found.parent == installed.parent / ".cache/numba"


def test_a_folder_that_somebody_else_made_is_not_used(installed):
    before = Path(place_found(installed, HOME=str(installed.parent)))
    before.mkdir(parents=True, exist_ok=True)
    before.chmod(0o555)  # as root's after `sudo tiersnap`, in a place of this user
    assert place_found(installed, HOME=str(installed.parent)) != str(before)


def test_a_folder_that_was_named_is_used(installed):
    named = installed.parent / "named"
    assert Path(place_found(installed, HOME="/dev/null", NUMBA_CACHE_DIR=str(named))).parent == named


def test_a_folder_that_was_named_and_cannot_be_written_to_is_not_used(installed):
    found = place_found(installed, HOME=str(installed.parent), NUMBA_CACHE_DIR="/proc/nowhere")
    assert Path(found).parent == installed.parent / ".cache/numba"


def test_another_rule_in_any_kernel_module_is_another_folder(installed):
    before = place_found(installed, HOME=str(installed.parent))
    (installed / "tiersnap/snapshot/kernels").chmod(0o755)
    (installed / "tiersnap/snapshot/kernels/fold.py").write_text("KEEP = 1\n")
    assert place_found(installed, HOME=str(installed.parent)) != before


@pytest.mark.parametrize("name", COMPILED)
def test_another_layout_that_kernels_are_compiled_with_is_another_folder(installed, name):
    before = place_found(installed, HOME=str(installed.parent))
    (installed / f"tiersnap/snapshot/formats/{name}.py").write_text("HEADER_LENGTH = 62\n")
    assert place_found(installed, HOME=str(installed.parent)) != before
