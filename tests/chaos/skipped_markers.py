"""Transactions that end without a marker: told by brokers' own logs.

A coordinator of Kafka 4.3.1 takes a partition without a leader for one that was deleted: it sends no marker there,
says that the transaction is complete, and tells the client so. The records stay open, and the next marker of the same
producer, commit or abort, ends them with its own. So nobody knows how such a transaction ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

_SKIPPED = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d\.\d{3}) .*Couldn't find leader endpoint for partitions Set\((?P<partitions>[^)]*)\) "
    r"while trying to send transaction markers"
)


def skipped_markers(outputs: Path, began: datetime) -> Iterator[tuple[int, str]]:
    """(ms since `began`, topic) of every marker that a coordinator left out.

    Args:
        outputs: the folder below which brokers' logs lie; their lines begin with the time of day in UTC, in which the
            hour may be wrong, as brokers' clocks jump.
        began: UTC, less than an hour before the last line.
    """
    for path in sorted(outputs.glob("broker-*/output/*.log")):
        for line in path.read_text(errors="replace").splitlines():
            if found := _SKIPPED.match(line):
                at = datetime.combine(began.date(), time.fromisoformat(found["time"]), UTC)
                since = (at - began) % timedelta(hours=1)
                for partition in found["partitions"].split(", "):
                    yield int(since.total_seconds() * 1000), partition.rpartition("-")[0]
