"""docs/compatibility.md names the tests that there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.compatibility import ROOT

pytestmark = pytest.mark.unit


def test_compatibility_page_is_made_of_the_tests_that_are_collected() -> None:
    words = [sys.executable, "-m", "tests.compatibility", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
