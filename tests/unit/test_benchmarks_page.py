"""docs/contributing/benchmarks.md: generating it replaces its measured tables and no other word."""

from __future__ import annotations

import re

import pytest

from tests.perf.page import PAGE, page_with_rows

pytestmark = pytest.mark.unit

TEXT = PAGE.read_text(encoding="utf-8")
PLACES = re.findall(r"<!-- measured: (\w+) -->\n", TEXT)
PART = {
    "rows": [
        {"what": "a row", "budget": "≥ 2", "ours": "3 s", "peer": "9 s", "ratio": 3.0, "is_met": True, "note": "short"}
    ],
    "scale": "quick",
    "load": "1.0 and 2.0",
    "date": "2026-11-29",
    "machine": "a machine",
}
MEASURED = dict.fromkeys(PLACES, PART)


def words_outside(text: str) -> str:
    return re.sub(r"(<!-- measured: \w+ -->).*?(<!-- end of measured -->)", r"\1\2", text, flags=re.DOTALL)


def test_page_with_rows_replaces_the_tables_of_measured_parts_alone() -> None:
    written = page_with_rows(TEXT, MEASURED)
    assert words_outside(written) == words_outside(TEXT)
    assert written.count("| a row | ≥ 2 | 3 s | 9 s | 3.00 | met |") == len(PLACES) > 0
    assert page_with_rows(written, MEASURED) == written


def test_page_with_rows_keeps_the_table_of_a_part_without_rows() -> None:
    assert page_with_rows(TEXT, {"memory": PART}) == TEXT


def test_page_has_places_for_parts_that_exist() -> None:
    bench = (PAGE.parents[2] / "tests/perf/bench.py").read_text(encoding="utf-8")
    assert len(PLACES) == len(set(PLACES)) == TEXT.count("<!-- end of measured -->\n")
    assert [name for name in PLACES if f'"{name}": {name}_rows.rows' not in bench] == []
