"""docs/guarantees.md has the table of what a script pasted."""

from __future__ import annotations

import pytest

from tests.pasted_cures import PAGE, PastedCure, page_with_table, read, table_rows

pytestmark = pytest.mark.unit


def test_table_of_cures_is_made_of_the_record() -> None:
    assert read()
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_table(page) == page


def test_each_recorded_cure_ends_with_a_healthy_doctor() -> None:
    assert {each.commands[-1] for each in read()} == {"`doctor` 0"}


def test_table_has_one_row_for_a_cure_on_several_brokers() -> None:
    cures = [
        PastedCure("full disk", "4.1.1 KRaft", "S3", 2, ["`unblock` 0", "`doctor` 0"], [], 30),
        PastedCure("full disk", "3.9.1 KRaft", "S3", 2, ["`unblock` 0", "`doctor` 0"], [], 20),
        PastedCure("full disk", "3.9.1 ZooKeeper", "S3", 2, ["`doctor` 0"], ["stop the broker"], 9),
    ]
    assert list(table_rows(cures)) == [
        ("full disk", "4.1.1 KRaft, S3; 3.9.1 KRaft, S3", "2: `unblock` 0, `doctor` 0", "nothing", "20 to 30"),
        ("full disk", "3.9.1 ZooKeeper, S3", "1: `doctor` 0", "stop the broker", "9"),
    ]
