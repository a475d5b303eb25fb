"""`make demo`: one session that does the main job, and then the same again, which finds nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_the_demo_does_the_main_job_and_the_same_again_finds_nothing_to_do(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("tiersnap")
    words = [str(command), "demo", "--to", str(tmp_path / "demo")]
    env = {**os.environ, "COLUMNS": "200"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, cwd=tmp_path, env=env)
    assert ran.returncode == 0, ran.stderr[-3000:]
    first, again = (ran.stdout + ran.stderr).split("4. The same again on the same session")
    assert "segments tiered: 12" in first
    assert "nothing to do: no object was written and no Delta version committed" in again
    for page in ("report", "report-again"):
        assert (tmp_path / "demo" / page / "index.html").stat().st_size > 0
