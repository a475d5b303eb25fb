"""The first commands on a new host: what they say that later ones do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.small_log import write_small_log
from tests.reference.typed_page import ROOT

pytestmark = pytest.mark.unit

COMPILING = "compiling the replay code for this processor"


def typed_at_a_terminal(*words: str | Path, **variables: str) -> str:
    """What a command shows on stderr, which is a terminal."""
    reader, terminal = os.openpty()
    command = [sys.executable, "-m", "tests.reference.tiersnap", *map(str, words)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=terminal, env={**os.environ, **variables}
    ):
        os.close(terminal)
        shown = b""
        while part := _read(reader):
            shown += part
    os.close(reader)
    return shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_only_the_first_replay_on_a_host_says_that_it_compiles(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    kept = str(tmp_path / "kept")
    assert COMPILING not in typed_at_a_terminal("doctor", tmp_path / "logs", NUMBA_CACHE_DIR=kept)
    assert COMPILING in typed_at_a_terminal("scan", tmp_path / "logs", NUMBA_CACHE_DIR=kept)
    assert COMPILING not in typed_at_a_terminal("scan", tmp_path / "logs", NUMBA_CACHE_DIR=kept)


@pytest.mark.parametrize(
    ("lacking", "said"), [(["moto"], "not installed: moto\n"), (["moto", "boto3"], "not installed: moto and boto3\n")]
)
def test_demo_names_what_is_not_installed_before_it_begins(lacking: list[str], said: str, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({lacking}))\n"
        "from tiersnap.jobs.main import run; sys.exit(run(['demo', '--to', 'out']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first, second, *more = done.stderr.splitlines(keepends=True)
    assert first == f"tiersnap: the demo needs Python packages that are {said}"
    assert "install" in second
    assert "[demo" in second
    assert (more, done.stdout, list(tmp_path.iterdir())) == ([], "", [])
