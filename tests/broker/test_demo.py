"""`make demo-broker` as it is typed, without the download."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.broker.harness.scenarios import CURRENT_VERSION, LEGACY_VERSION


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.kafka(LEGACY_VERSION, CURRENT_VERSION)
def test_demo_frees_a_stuck_broker_with_one_run() -> None:
    command = [sys.executable, "-m", "tests.broker.demo"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "duplicate" in ran.stdout
