"""Commands of a host on local disks run where pyarrow is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.all_logs import DATA

pytestmark = pytest.mark.unit

RUN = """
import sys
sys.modules["pyarrow"] = None
from tiersnap.jobs.main import run
for command in sys.argv[1:]:
    code = run(command.split())
    assert code == 0, (command, code)
assert "pandas" not in sys.modules
"""


def test_commands_of_a_host_need_no_pyarrow_when_its_disks_are_local(tmp_path: Path) -> None:
    logs = DATA / "kafka-3.9.1" / "logs"
    commands = (
        f"scan {logs}",
        f"verify {logs}",
        f"repair {logs} --out {tmp_path / 'out'} --all",
        f"tier {logs} --remote {tmp_path / 'remote'} --apply",
        f"simulate {logs}",
        f"simulate {logs} --risk",
        f"producers {logs}",
    )
    ran = subprocess.run([sys.executable, "-c", RUN, *commands], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
