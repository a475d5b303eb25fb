"""The last run of a warehouse, as a report that is made later shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiersnap.snapshot.report.from_tables import BEFORE_THE_FIRST, LastRun

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("run_id", "no_upload", "applied"),
    [("", False, False), ("run-1", False, True), ("run-1", True, False)],
)
def test_report_is_applied_if_the_recorded_run_wrote_remote_storage(
    run_id: str, *, no_upload: bool, applied: bool
) -> None:
    last = LastRun(run_id=run_id, settings=replace(BEFORE_THE_FIRST, no_upload=no_upload))
    assert last.info("warehouse", None, None, at=1, now=1).applied is applied
