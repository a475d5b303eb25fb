"""Compiled kernels: made once, loaded without numba, and equal to the Python that they were made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.kernels import batch, crc, fold
from tiersnap.snapshot.kernels.compiler import compiled
from tiersnap.snapshot.kernels.native import Kernel

pytestmark = [pytest.mark.unit, pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")]

BUNDLED = sorted((Path(__file__).parents[1] / "data").glob("*/logs/*/*.log"))
_ASK = """
import sys
import numpy as np
from tiersnap.snapshot.kernels.crc import checksum_by_table
print(checksum_by_table(np.frombuffer(b"123456789", np.uint8), 0, 9), "numba" in sys.modules)
"""


def asked(folder: Path) -> str:
    """What a process says that computes the CRC-32C of `123456789`, and whether it needed numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_kernel_is_compiled_once(tmp_path):
    assert asked(tmp_path) == "3808858755 True"
    assert asked(tmp_path) == "3808858755 False"


def test_kernel_is_compiled_anew_when_its_file_is_damaged(tmp_path):
    asked(tmp_path)
    (kept,) = tmp_path.glob("*/crc.checksum_by_table-*.o")
    kept.write_bytes(kept.read_bytes()[:-1])

    assert asked(tmp_path) == "3808858755 True"
    assert asked(tmp_path) == "3808858755 False"


def test_kernel_runs_when_it_cannot_be_kept(tmp_path):
    asked(tmp_path)
    (kept,) = tmp_path.glob("*/crc.checksum_by_table-*.o")
    kept.unlink()
    kept.mkdir()

    assert asked(tmp_path) == "3808858755 True"


def test_kernel_that_may_raise_is_refused():
    def divided(numbers):
        return numbers[0] // numbers[1]

    with pytest.raises(NotImplementedError, match=r"test_kernels\.divided would need .*numba_"):
        compiled(Kernel(divided, (np.int64,), 1, inline=False))


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
