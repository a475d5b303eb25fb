"""Timelines: what is merged, what is kept apart, and where it lies on the axis."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.reference.readiness_tables import GIB, RUN, row, segments_of, table
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.report.html_parts import bar, marks, rectangles
from tiersnap.snapshot.report.model import Count, PagePartition, Span
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.timeline import MAX_SPANS, axis_of, runs, spans

pytestmark = pytest.mark.unit


def _partition(verdicts: str, **others: object) -> PagePartition:
    return summarise(table(segments_of("t", 0, verdicts, **others)), RUN).topics[0].partitions[0]


def drawn(partition: PagePartition) -> list[tuple[str, ...]]:
    """Class, x, width and title of each rectangle of the timeline."""
    pattern = r'<rect class="(.*?)" x="(.*?)" .*?width="(.*?)".*?><title>(.*?)</title></rect>'
    return re.findall(pattern, rectangles(partition))


def test_few_segments_are_drawn_one_by_one() -> None:
    timeline = _partition("READY READY ACTIVE_SEGMENT", step=100).timeline
    assert timeline == (
        Span(Verdict.READY, 0, 100, Count(1, GIB)),
        Span(Verdict.READY, 100, 200, Count(1, GIB)),
        Span(Verdict.ACTIVE_SEGMENT, 200, None, Count(1, GIB)),
    )


def test_ten_thousand_segments_merge_into_a_span_a_run() -> None:
    verdicts = f"{'TIERED ' * 9000}MISSING_SNAPSHOT {'GAP_BEFORE ' * 998}ACTIVE_SEGMENT"
    timeline = _partition(verdicts, step=100).timeline
    assert timeline == (
        Span(Verdict.TIERED, 0, 900_000, Count(9000, 9000 * GIB)),
        Span(Verdict.MISSING_SNAPSHOT, 900_000, 900_100, Count(1, GIB)),
        Span(Verdict.GAP_BEFORE, 900_100, 999_900, Count(998, 998 * GIB)),
        Span(Verdict.ACTIVE_SEGMENT, 999_900, None, Count(1, GIB)),
    )


def test_too_many_runs_become_mixed_spans_that_show_the_worst_and_lose_no_segment() -> None:
    timeline = _partition(f"{'TIERED READY ' * 5000}ACTIVE_SEGMENT").timeline
    assert len(timeline) <= MAX_SPANS
    assert {span.verdict for span in timeline} == {Verdict.READY}
    assert all(span.is_mixed for span in timeline)
    assert sum((span.count for span in timeline), Count()) == Count(10_001, 10_001 * GIB)
    assert [a.end_offset for a in timeline[:-1]] == [b.base_offset for b in timeline[1:]]


def test_offsets_near_the_largest_do_not_overflow() -> None:
    base = np.arange(1000, dtype=np.int64) * 2**52 + 2**61
    rank = np.arange(1000, dtype=np.int8) % 2
    timeline = spans(base, base + 2**52, np.ones(1000, np.int64), rank, np.ones(1000, np.int64))
    assert len(timeline) == MAX_SPANS
    assert timeline[0].base_offset == 2**61
    assert timeline[-1].end_offset == 2**61 + 1000 * 2**52


def test_no_segments_no_spans() -> None:
    nothing = np.zeros(0, np.int64)
    assert spans(nothing, nothing, nothing, nothing, nothing) == ()


def test_runs_merge_neighbours_however_few() -> None:
    partition = _partition("READY READY MISSING_INDEX GAP_BEFORE GAP_BEFORE ACTIVE_SEGMENT", step=10)
    assert [(span.verdict, span.base_offset, span.end_offset, span.count.segments) for span in runs(partition)] == [
        (Verdict.READY, 0, 20, 2),
        (Verdict.MISSING_INDEX, 20, 30, 1),
        (Verdict.GAP_BEFORE, 30, 50, 2),
        (Verdict.ACTIVE_SEGMENT, 50, None, 1),
    ]


def test_the_axis_holds_log_start_segments_and_high_watermark() -> None:
    marks_far_out = {"log_start_offset": 150, "high_watermark": 1000, "last_stable_offset": 700}
    axis = axis_of(_partition("READY READY ACTIVE_SEGMENT", step=100, **marks_far_out))
    assert (axis.start, axis.end) == (0, 1000)
    assert axis.at(250) == 25.0


def test_an_active_segment_of_unknown_length_is_still_drawn() -> None:
    unknown = {"high_watermark": None, "last_stable_offset": None}
    axis = axis_of(_partition("READY ACTIVE_SEGMENT", step=1000, **unknown))
    assert (axis.start, axis.end) == (0, 1030)
    only = _partition("ACTIVE_SEGMENT", **unknown)
    assert [width for _, _, width, _ in drawn(only)] == ["100.00%"]


def test_rectangles_stay_inside_and_what_is_worse_is_drawn_later() -> None:
    partition = _partition(f"{'READY ' * 5000}CORRUPT_SEGMENT ACTIVE_SEGMENT")
    pieces = drawn(partition)
    verdict, _, width, title = pieces[-1]
    assert verdict == Verdict.CORRUPT_SEGMENT
    assert float(width.rstrip("%")) >= 0.5, "one segment of 5,000 must be seen"
    assert all(float(x[:-1]) + float(width[:-1]) <= 100.01 for _, x, width, _ in pieces)
    assert title == "CORRUPT_SEGMENT · offsets 5,000,000,000 to 5,000,999,999 · 1 segment · 1.0 GiB"


@pytest.mark.parametrize(
    ("start", "stable", "watermark", "labels"),
    [
        (0, 1000, 1000, ["log start", "LSO = HW", ""]),
        (0, 500, 1000, ["log start", "LSO", "HW"]),
        (0, 990, 1000, ["log start", "LSO, HW", ""]),
        (990, 990, 1000, ["log start = LSO, HW", "", ""]),
        (0, None, None, ["log start"]),
        (0, None, 1000, ["log start", "HW"]),
    ],
)
def test_marks_share_a_label_where_two_would_not_fit(
    start: int, stable: int | None, watermark: int | None, labels: list[str]
) -> None:
    rows = [row("t", 0, 0, 1000, "READY", log_start_offset=start, last_stable_offset=stable, high_watermark=watermark)]
    observed = marks(summarise(table(rows), RUN).topics[0].partitions[0])
    assert [mark.label for mark in observed] == labels
    assert observed[0].kind == "log-start"


def test_a_bar_shares_its_width_by_bytes_worst_first() -> None:
    rows = [row("t", 0, 0, 1, "READY", size_bytes=3), row("t", 0, 1, 2, "MISSING_INDEX", size_bytes=1)]
    rows.append(row("t", 0, 2, None, "ACTIVE_SEGMENT", size_bytes=0))
    pieces = bar(summarise(table(rows), RUN).cluster)
    assert [(piece.name, piece.x, piece.width) for piece in pieces] == [
        (Verdict.MISSING_INDEX, "0.00%", "25.00%"),
        (Verdict.READY, "25.00%", "75.00%"),
    ]
