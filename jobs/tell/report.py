"""What `report` shows: rows of the grain that was asked for, and copies that nobody needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pyarrow as pa

from tiersnap.jobs.output import Output
from tiersnap.snapshot.report import COLUMNS, By, Report, RunInfo, partition_rows, segment_rows, topic_rows
from tiersnap.snapshot.tables.remote_log_segments import Row
from tiersnap.snapshot.units import count_of


def show(output: Output, grain: By, rows: pa.Table, report: Report, info: RunInfo, left: Sequence[Row]) -> None:
    """The result.

    Args:
        rows: of READINESS, which `report` sums up.
        left: rows of REMOTE_LOG_SEGMENTS of copies that nobody needs.
    """
    shown = {
        By.SEGMENT: lambda: segment_rows(rows, info),
        By.PARTITION: lambda: partition_rows(report),
        By.TOPIC: lambda: topic_rows(report),
    }[grain]()
    named = [f"{row['topic']}-{row['partition']} at {row['start_offset']}: {row['segment_id']}" for row in left]
    output.row_dicts("report", shown, columns=COLUMNS[grain], summary={"unneeded_copies": named} if named else {})
    if left:
        output.talk(
            f"{count_of(len(left), 'copy was', 'copies were')} never finished, or hold what others hold; what no "
            f"cluster knows goes with {_remove_orphans(info)}"
        )


def _remove_orphans(info: RunInfo) -> str:
    """The command, as far as it is known."""
    kept = info.options.get("maintain remove-orphans", ())
    place = shlex.quote(info.remote) if info.remote else "REMOTE"
    server = "" if "--bootstrap-server" in kept else "--bootstrap-server HOST:PORT"
    words = ["tiersnap maintain remove-orphans --remote", place, shlex.join(kept), server]
    return " ".join(word for word in words if word)
