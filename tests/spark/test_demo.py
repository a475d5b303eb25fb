"""`make demo`: one session that does the main job, and then the same again, which finds nothing to do."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

LOGS = Path(__file__).parents[2] / "jobs/demo/demo_data"


def test_the_demo_does_the_main_job_and_the_same_again_finds_nothing_to_do(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("tiersnap")
    words = [str(command), "demo", "--to", str(tmp_path / "demo")]
    env = {**os.environ, "COLUMNS": "200"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, cwd=tmp_path, env=env)
    assert ran.returncode == 0, ran.stderr[-3000:]
    first, again = (ran.stdout + ran.stderr).split("4. The same command in the same session")
    assert "segments uploaded: 12" in first
    assert "no object was written, and no Delta table changed" in again
    for page in ("report", "report-again"):
        assert (tmp_path / "demo" / page / "index.html").stat().st_size > 0
    blocked = closed_segments()
    missing = [each for each in blocked if not each.snapshot.exists()]
    causes = [each for each in missing if each.is_first]
    behind = [each for each in blocked if each not in causes]
    before, after = (tmp_path / "demo" / found for found in (first_page(ran.stderr), "report/index.html"))
    assert_page(
        before,
        f"Waiting {human(blocked)} 100 %, {len(blocked)} segments",
        f"worst first MISSING_SNAPSHOT {human(causes)} {len(causes)} segments in 2 partitions "
        f"{len(behind)} segments, {human(behind)}, wait behind ledger-0 , ledger-1",
        f"Producer snapshots at the ends of {len(blocked)} closed segments: {len(missing)} missing",
        f"tiersnap repair {LOGS} --as-of ",
        f"tiersnap tier {LOGS} --remote s3://tiersnap-demo/tiers --endpoint-url ",
        *(f"no {each.snapshot.name}" for each in causes),
    )
    assert_page(
        after,
        f"tiersnap uploaded {human(blocked)}, and no published record of these segments is known: publish them",
        f"wrote {len(missing)} producer snapshots and uploaded {len(blocked)} segments",
        f"Uploaded 0 B 0 segments {human(blocked)} {len(blocked)} segments +{human(blocked)}",
        f"Waiting {human(blocked)} {len(blocked)} segments 0 B 0 segments",
        "2 partitions MISSING_SNAPSHOT → UPLOADED",
    )


@dataclass(frozen=True)
class Closed:
    """A closed segment by the names of files alone; a broker tiers it with the snapshot where the next one begins."""

    folder: str
    size: int
    snapshot: Path
    is_first: bool


def closed_segments() -> list[Closed]:
    return [
        Closed(folder.name, log.stat().st_size, folder / f"{following.stem}.snapshot", log == logs[0])
        for folder in sorted(LOGS.glob("ledger-*"))
        for logs in [sorted(folder.glob("*.log"))]
        for log, following in pairwise(logs)
    ]


def human(segments: list[Closed]) -> str:
    return f"{sum(each.size for each in segments) / 1024:.1f} KiB"


def first_page(said: str) -> str:
    return re.findall(r"^Report of the plan: .*?/demo/(.*)$", said, re.MULTILINE)[0]


def assert_page(page: Path, *sentences: str) -> None:
    """See that a reader finds the sentences in the page."""
    text = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    seen = " ".join(html.unescape(text).split())
    for each in sentences:
        assert each in seen, (each, page.name)
