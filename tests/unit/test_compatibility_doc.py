"""docs/compatibility.md names tests that exist, and docs/contributing their number."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import tier_counts
from tests.compatibility import ROOT

pytestmark = pytest.mark.unit


def test_docs_name_the_tests_that_are_collected_and_count_them() -> None:
    words = [sys.executable, "-m", "tests.compatibility", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_landing_has_time_for_so_many_tests_of_a_tier() -> None:
    (said,) = tier_counts.differences({"broker": (26, 400)}, {"broker": (26, 400)})
    assert said == "broker: 26 tests at a landing, which has time for 25"
    (said,) = tier_counts.differences({"broker": (25, 400)}, {"broker": (25, 401)})
    assert said.endswith("broker: 25 tests at a landing and 400 in all, not (25, 401)")
