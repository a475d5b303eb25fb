"""Two thousand generated logs: the replay that ships and the readable one say the same; `make soak` has 100,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.agreeing import disagreements

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("first", range(0, 2_000, 500))
def test_the_replay_says_what_the_readable_one_says(tmp_path: Path, first: int) -> None:
    assert list(disagreements(tmp_path, range(first, first + 500))) == []
