"""The last line of `run` without uploads: it names the command if `--apply` writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.commands.run import show
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.gate.verdict import Verdict

pytestmark = pytest.mark.unit

NOTHING = "nothing to do: no segment can be tiered now"
NEXT = "tiersnap run --source /logs --remote remote --warehouse warehouse --apply"


@pytest.mark.parametrize("verdict", [Verdict.LEFT_TO_BROKER, Verdict.TIERED, Verdict.TOPIC_ID_UNKNOWN])
@pytest.mark.parametrize(
    ("apply", "has_rows", "said"),
    [
        (False, True, f"nothing was written; next: {NEXT}"),
        (False, False, NOTHING),
        (True, True, "the tables were written; no segment can be tiered now"),
        (True, False, NOTHING),
    ],
)
def test_run_without_uploads_tells_whether_the_tables_change(
    capsys: pytest.CaptureFixture[str], verdict: Verdict, said: str, *, apply: bool, has_rows: bool
) -> None:
    outcome = RunOutcome(verdicts={verdict: 2}, has_rows=has_rows)
    settings = RunSettings(("/logs",), "remote", "warehouse", apply=apply, no_upload=apply)
    show(Output(Format.TABLE), outcome, settings, Path("report"), is_fine=True)
    lines = capsys.readouterr().err.splitlines()
    assert [each for each in lines if "nothing" in each or "tables" in each] == [said]
