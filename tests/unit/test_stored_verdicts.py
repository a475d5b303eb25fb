"""The verdict that holds now, from the rows of `readiness`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tiersnap.snapshot.tables.readiness import STORED_VERDICTS, current_verdicts

pytestmark = pytest.mark.unit
KEY = ("/data", "orders", 0, 10)


def row(verdict: str | None, *, run: int, judged_at: int) -> dict[str, object]:
    names = dict(zip(("log_dir", "topic", "partition", "base_offset"), KEY, strict=True))
    filled = {"level": "READY", "snapshot": "MISSING", "reason": "", "next_step": ""} if verdict else {}
    return {**names, "verdict": verdict, "run": run, "judged_at": judged_at, **filled}


@pytest.mark.parametrize("is_reversed", [False, True])
def test_of_two_rows_of_one_run_number_the_later_one_holds(*, is_reversed: bool) -> None:
    """A run that was killed before it was recorded wrote that the segment is gone; the next one has its number."""
    rows = [row(None, run=3, judged_at=1), row("READY", run=3, judged_at=2), row("ACTIVE_SEGMENT", run=2, judged_at=0)]
    batch = pa.RecordBatch.from_pylist(rows[::-1] if is_reversed else rows, schema=STORED_VERDICTS)
    assert {key: str(each.verdict) for key, each in current_verdicts([batch]).items()} == {KEY: "READY"}
