"""docs/tutorial.md, typed from its first command to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.typed_page import ROOT, alike, commands_of, shows, type_in

pytestmark = pytest.mark.unit

PAGE = ROOT / "docs/tutorial.md"
MOST_WORDS = 1_300


def test_each_command_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    commands = list(commands_of(PAGE))
    assert len(commands) >= 10
    for command in commands:
        printed = alike(type_in(tmp_path, command))
        assert shows(alike(command.shown), printed), (command.words, printed)


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").split()) <= MOST_WORDS


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (("a", "b", "c"), True),
        (("a", "…"), True),
        (("…", "b", "…"), True),
        (("a", "…", "c"), True),
        (("a", "c"), False),
        (("a", "b"), False),
        (("a", "…", "d"), False),
        (("a", "b", "c", "…"), False),
    ],
)
def test_page_shows_an_output_if_it_marks_each_omission(shown: tuple[str, ...], expected: bool) -> None:
    assert shows(shown, ("a", "b", "c")) is expected
