"""The trend of waiting bytes: its values by the table `readiness`, and its plot."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.reference.questions import ANSWERS, HISTORY
from tests.reference.readiness_tables import GIB, RUN, sample_table
from tiersnap.jobs.cli.delta_tables import waiting_trend
from tiersnap.snapshot.report.html_page import to_html
from tiersnap.snapshot.report.html_parts import day
from tiersnap.snapshot.report.partitions import DAY_MS
from tiersnap.snapshot.report.run_info import WaitingAt
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.waiting_trend import plot_of

pytestmark = pytest.mark.unit

QUESTION = "How many bytes waited, day by day and topic by topic?"


def test_trend_has_the_sums_of_each_day_that_the_documented_question_has(tmp_path: Path) -> None:
    days = HISTORY["judged_on"].to_pylist()
    at = pa.array([(date.fromisoformat(each) - date(1970, 1, 1)).days * DAY_MS for each in days])
    place = HISTORY.schema.get_field_index("judged_at")
    write_deltalake(tmp_path / "readiness", HISTORY.set_column(place, HISTORY.schema.field(place), at))
    found = {day(each.at): each.bytes for each in waiting_trend(str(tmp_path))}
    expected = dict.fromkeys(days, 0)
    for on, _, size in ANSWERS[QUESTION]:
        expected[on] += size
    assert found == expected
    assert list(found) == sorted(found)
    assert any(found.values())


def test_trend_is_empty_before_the_first_run(tmp_path: Path) -> None:
    assert waiting_trend(str(tmp_path)) == ()


def trend(*sizes: int, step: int = DAY_MS) -> list[WaitingAt]:
    start = 1_795_219_200_000  # 2026-11-21 00:00 UTC
    return [WaitingAt(start + number * step, size) for number, size in enumerate(sizes)]


def test_plot_has_a_scale_in_round_bytes_and_an_axis_of_days() -> None:
    plot = plot_of(trend(96 * GIB, 128 * GIB, 32 * GIB))
    assert plot is not None
    assert [(each.y, each.label) for each in plot.sizes] == [
        ("100.00%", "0 B"),
        ("75.00%", "32 GiB"),
        ("50.00%", "64 GiB"),
        ("25.00%", "96 GiB"),
        ("0.00%", "128 GiB"),
    ]
    days = [(each.x, each.label) for each in plot.times if "00:00" in each.label]
    assert days == [("0.00%", "21 Nov 00:00"), ("50.00%", "22 Nov 00:00"), ("100.00%", "23 Nov 00:00")]
    assert plot.line == "0.0,25.00 0.0,25.00 500.0,25.00 500.0,0.00 1000.0,0.00 1000.0,75.00", "steps, not slopes"
    assert "96.0 GiB waited at 2026-11-21 00:00 UTC" in plot.says


@pytest.mark.parametrize(
    ("step", "form"),
    [(60_000, r"\d\d Nov \d\d:\d\d"), (40 * DAY_MS, r"\d\d [A-Z][a-z]{2}"), (400 * DAY_MS, r"[A-Z][a-z]{2} 20\d\d")],
)
def test_axis_has_a_few_labels_over_minutes_months_and_years(step: int, form: str) -> None:
    plot = plot_of(trend(*range(1, 9), step=step))
    assert plot is not None
    assert 2 <= len(plot.times) <= 7
    assert all(re.fullmatch(form, each.label) for each in plot.times)


@pytest.mark.parametrize("sizes", [(), (1,), (0, 0)])
def test_plot_is_left_out_if_it_would_show_nothing(sizes: tuple[int, ...]) -> None:
    assert plot_of(trend(*sizes)) is None


def test_page_shows_the_trend_of_the_table_before_that_of_the_folder() -> None:
    report = summarise(sample_table(), RUN)
    assert '<section id="trend">' not in to_html(report), "one run"
    page = to_html(replace(report, trend=tuple(trend(5 * GIB, 3 * GIB))))
    assert "5.0 GiB waited at 2026-11-21 00:00 UTC" in page.split('<section id="trend">')[1]
