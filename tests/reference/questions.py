"""The questions of docs/warehouse.md, and a small history of `readiness` with their answers."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.gate.verdict import LEVEL, Verdict
from tiersnap.snapshot.tables.readiness import STORED_VERDICTS

PAGE = (Path(__file__).parents[2] / "docs/warehouse.md").read_text(encoding="utf-8")
QUESTIONS: dict[str, str] = dict(
    re.findall(r"^### ([^\n]*)\n(?:(?!```).)*```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
)
_FIRST_DAY = date(2026, 11, 1).toordinal()


def _row(run: int, topic: str, base: int, verdict: str | None, reason: str = "", partition: int = 0) -> dict[str, Any]:
    """A row of run number `run`, a run a day; a segment at 100 has 1,000 bytes more than one at 0."""
    found: dict[str, Any] = dict.fromkeys(STORED_VERDICTS.names)
    found |= {each.name: 0 for each in STORED_VERDICTS if not each.nullable and pa.types.is_integer(each.type)}
    found |= {each.name: "" for each in STORED_VERDICTS if not each.nullable and pa.types.is_string(each.type)}
    found |= {each.name: [] for each in STORED_VERDICTS if pa.types.is_list(each.type)}
    found |= {"crc_checked": True, "has_gaps": False, "log_dir": "/data", "topic": topic, "partition": partition}
    found |= {"base_offset": base, "next_base_offset": base + 100, "size_bytes": 10 + base * 10, "run": run}
    found |= {"verdict": verdict, "reason": reason, "next_step": f"clear {verdict}" if verdict else None}
    found["level"] = None if verdict is None else str(LEVEL[Verdict(verdict)])
    found["judged_on"] = date.fromordinal(_FIRST_DAY + run).isoformat()
    return found


HISTORY = pa.Table.from_pylist(
    [
        _row(1, "orders", 0, "MISSING_SNAPSHOT", "no snapshot at 100"),
        _row(1, "orders", 100, "GAP_BEFORE", "segment 0 comes first"),
        _row(1, "orders", 200, "ACTIVE_SEGMENT"),
        _row(1, "orders", 0, "TIERED", partition=1),
        _row(1, "payments", 0, "SUSPECT_SNAPSHOT", "lacks producer 7"),
        _row(2, "orders", 0, "UPLOADED", "tiersnap uploaded it"),
        _row(2, "orders", 100, "READY", "equals the log"),
        _row(2, "payments", 0, None),
        _row(3, "orders", 0, "TIERED", "records cover it"),
        _row(3, "orders", 0, None, partition=1),
        _row(3, "payments", 100, "SUSPECT_SNAPSHOT", "lacks producer 9"),
        _row(3, "payments", 200, "CORRUPT_SNAPSHOT", "cannot be read"),
    ],
    schema=STORED_VERDICTS,
)
ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "What is not tiered, and why?": [
        ("payments", "CORRUPT_SNAPSHOT", 1, 2010),
        ("orders", "READY", 1, 1010),
        ("payments", "SUSPECT_SNAPSHOT", 1, 1010),
    ],
    "What must I do first?": [
        ("payments", 0, 100, "SUSPECT_SNAPSHOT", "lacks producer 9", "clear SUSPECT_SNAPSHOT"),
    ],
    "How many bytes waited, day by day and topic by topic?": [
        ("2026-11-02", "orders", 1020),
        ("2026-11-02", "payments", 10),
        ("2026-11-04", "payments", 3020),
    ],
    "What happened to a segment?": [
        ("2026-11-02", 1, "MISSING_SNAPSHOT", "no snapshot at 100"),
        ("2026-11-03", 2, "UPLOADED", "tiersnap uploaded it"),
        ("2026-11-04", 3, "TIERED", "records cover it"),
    ],
    "Which segments left the disk before they were in remote storage?": [
        ("payments", 0, 0, "SUSPECT_SNAPSHOT", "2026-11-03", 10),
    ],
}
