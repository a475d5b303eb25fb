"""Compiled kernels: made once, loaded without numba, and equal to the Python that they were made of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.kernels import batch, crc, fold
from tiersnap.snapshot.kernels.compiler import compiled
from tiersnap.snapshot.kernels.native import Kernel, address_of

pytestmark = [pytest.mark.unit, pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")]

BUNDLED = sorted((Path(__file__).parents[1] / "data").glob("*/logs/*/*.log"))
_ASK = """
import sys
import numpy as np
from tiersnap.snapshot.kernels.crc import checksum_by_table
print(checksum_by_table(np.frombuffer(b"123456789", np.uint8), 0, 9), "numba" in sys.modules)
"""


_NO_LIBRARY = "import google_crc32c\ngoogle_crc32c.__file__ = '/nowhere/google_crc32c/__init__.py'"


def asked(folder: Path, *before: str) -> str:
    """What a process says that computes the CRC-32C of `123456789`, and whether it needed numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", "\n".join([*before, _ASK])]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


@pytest.fixture(scope="module")
def first_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    assert asked(folder) == "3808858755 True"
    return folder


@pytest.fixture
def kept(first_folder, tmp_path):
    """The only file of a first process, in a folder of its own below `tmp_path`."""
    shutil.copytree(first_folder, tmp_path, dirs_exist_ok=True)
    (kept,) = tmp_path.glob("*/*")
    return kept


def test_kernel_is_compiled_once(kept, tmp_path):
    assert asked(tmp_path) == "3808858755 False"


def test_kernel_is_kept_for_all_who_may_read_new_files(kept):
    kept.with_name("new").touch()
    assert kept.stat().st_mode == kept.with_name("new").stat().st_mode


def test_kernel_is_compiled_anew_when_the_crc_library_is_gone(kept, tmp_path):
    # Other kernels call its function, and without it that would be a segmentation fault.
    assert asked(tmp_path, _NO_LIBRARY) == "3808858755 True"


def test_kernel_is_compiled_anew_when_its_file_is_damaged(kept, tmp_path):
    kept.write_bytes(kept.read_bytes()[:-1])

    assert asked(tmp_path) == "3808858755 True"
    assert asked(tmp_path) == "3808858755 False"


def test_kernel_runs_when_it_cannot_be_kept(kept, tmp_path):
    kept.unlink()
    kept.mkdir()

    assert asked(tmp_path) == "3808858755 True"
    assert list(kept.parent.iterdir()) == [kept]


def test_kernel_that_may_raise_is_refused_and_others_run():
    def divided(numbers):
        return numbers[0] // numbers[1]

    refused = Kernel(divided, (np.int64,), 1, inline=False)
    for _ in range(3):
        with pytest.raises(NotImplementedError, match=r"test_kernels\.divided would need .*numba_"):
            refused(np.ones(2, np.int64))
    assert crc.checksum_by_table(np.frombuffer(b"123456789", np.uint8), 0, 9) == 3808858755


@pytest.mark.parametrize("setting", ["BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_JIT", "OPT"])
def test_kernel_is_compiled_whatever_the_environment_tells_numba(monkeypatch, setting):
    def first(numbers):
        return numbers[0]

    told = type(numba.config.OPT)(0) if setting == "OPT" else 1
    monkeypatch.setattr(numba.config, setting, told)

    assert compiled(Kernel(first, (np.int64,), 1, inline=False))
    assert getattr(numba.config, setting) is told


@pytest.mark.parametrize(
    "array", [np.zeros(9, np.int64), np.zeros(18, np.uint8)[::2]], ids=["another dtype", "not contiguous"]
)
def test_kernel_refuses_an_array_that_it_was_not_compiled_for(array):
    with pytest.raises(TypeError, match=r"crc\.checksum_by_table: a contiguous array of uint8 expected"):
        crc.checksum_by_table(array, 0, 9)


def test_walk_compiled_equals_walk_in_python():
    """Over each bundled segment, whole and with one byte changed: rows, deltas, and why it stopped."""
    for number, path in enumerate(BUNDLED):
        data = bytearray(path.read_bytes()[:3_000])
        if data and number % 2:
            data[number * 101 % len(data)] ^= 1 + number % 7
        assert results(batch.walk, bytes(data)) == results(batch.walk.function, bytes(data)), path


def results(walk, data: bytes) -> tuple[object, ...]:
    """Of a walk without checksums, which have no form in Python."""

    def records(size: int, dtype: np.dtype) -> np.ndarray:
        # The kernel takes plain arrays, Python needs elements that have attributes.
        found = np.zeros(size, dtype)
        return found if isinstance(walk, Kernel) else found.view(np.recarray)

    states = records(1, batch.WALK_DTYPE)
    states["last_offset"], states["control_position"], states["digest"] = -1, -1, crc.START
    rows, deltas = records(400, RECORD_BATCH_DTYPE), records(64, fold.DELTA_DTYPE)
    slots = np.full(128, fold.EMPTY_SLOT, np.int32)
    end = walk(np.frombuffer(data, np.uint8), 0, 0, batch.NO_CUT, False, states, rows, slots, deltas)
    return tuple(map(int, end)), states.tolist(), rows.tolist(), deltas.tolist(), slots.tolist()


def test_the_address_of_an_array_is_that_which_numpy_says():
    whole = np.arange(10, dtype=np.int64)
    fixed = np.frombuffer(bytes(80), np.uint8)
    for array in (
        whole,
        whole[3:7],
        whole[:0],
        fixed,
        fixed[8:],
        np.empty(0, RECORD_BATCH_DTYPE),
        whole.view(np.uint8),
    ):
        assert address_of(array) == array.ctypes.data
