"""docs/tutorial.md, typed from its first command to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.typed_page import ROOT, alike, commands_of, type_in

pytestmark = pytest.mark.unit

PAGE = ROOT / "docs/tutorial.md"
MOST_WORDS = 1_500


def test_each_command_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    commands = list(commands_of(PAGE))
    assert len(commands) >= 10
    for command in commands:
        assert alike(type_in(tmp_path, command)) == alike(command.shown), command.words


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").split()) <= MOST_WORDS
