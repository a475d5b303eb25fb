"""`make bench`: every budget beside its peer, as a Markdown table.

`python -m tests.perf.bench [part …]` runs some parts only and prints. When all parts were measured, it also writes the
tables that docs/contributing/benchmarks.md has a place for, and a picture. BENCH chooses the sizes (see scale).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from tests.perf import (
    audit_rows,
    decode_rows,
    fleet_rows,
    host_rows,
    line_rows,
    look_rows,
    memory_rows,
    page,
    profile_rows,
    reading_rows,
    replay_rows,
    upload_rows,
    warehouse_rows,
)
from tests.perf.measure import Row, load, machine
from tests.perf.scale import DATA, Scale, current

PARTS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "decode": decode_rows.rows,
    "replay": replay_rows.rows,
    "memory": memory_rows.rows,
    "upload": upload_rows.rows,
    "reading": reading_rows.rows,
    "look": look_rows.rows,
    "host": host_rows.rows,
    "line": line_rows.rows,
    "idle": fleet_rows.idle_rows,
    "moved": fleet_rows.moved_rows,
    "fleet": fleet_rows.rows,
    "warehouse": warehouse_rows.rows,
    "audit": audit_rows.rows,
    "profile": profile_rows.rows,
}


def main(names: list[str]) -> int:
    # Without its bytecode each new Python process compiles numba and pandas, seconds that no user pays.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    DATA.mkdir(parents=True, exist_ok=True)
    scale = current()
    parts = {}
    for name in names or PARTS:
        before = load()
        rows = list(_told(PARTS[name](scale)))
        parts[name] = {
            "rows": [asdict(row) for row in rows],
            "scale": scale.name,
            "load": before,
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": machine(),
        }
    known = page.keep(parts)
    print(page.table(row for part in parts.values() for row in map(_row, part["rows"])))
    print(f"\n{machine()}")
    if set(known) >= set(PARTS):
        page.write({name: known[name] for name in PARTS})
    return 0


def _told(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        print(f"{row.what}: {row.ours} against {row.peer}, {row.ratio:.2f}", file=sys.stderr, flush=True)
        yield row


def _row(values: dict[str, object]) -> Row:
    return Row(**values)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
