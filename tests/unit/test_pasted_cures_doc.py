"""docs/guarantees.md has the table of what a script pasted."""

from __future__ import annotations

import pytest

from tests.pasted_cures import PAGE, page_with_table, read

pytestmark = pytest.mark.unit


def test_table_of_cures_is_made_of_the_record() -> None:
    assert read()
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_table(page) == page


def test_each_recorded_cure_ends_with_a_healthy_doctor() -> None:
    assert {each.commands[-1] for each in read()} == {"`doctor` 0"}
