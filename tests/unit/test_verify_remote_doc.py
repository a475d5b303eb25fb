"""docs/verify-remote.md names each verdict on a remote segment with the exit code of `verify`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.remote_check import RemoteVerdict

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs/verify-remote.md"


def test_verify_remote_page_names_the_exit_code_of_each_verdict() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = {verdict: int(code) for verdict, code in re.findall(r"^\| ([A-Z_]+) \| .+ \| (\d) \|$", text, re.MULTILINE)}
    assert named == {str(verdict): int(exit_code_of([verdict])) for verdict in RemoteVerdict}
