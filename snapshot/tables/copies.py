"""Rows of `remote_log_segments` -> what remote storage holds now, and what of it nobody needs.

No cluster is asked here, so what nobody needs is a guess that is worth a look: `tiersnap maintain remove-orphans` asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]
# In the order of KIP-405's states, which only move forward.
STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
_STARTED, _FINISHED, _DELETING, _ = STATES


def newest_states(rows: Iterable[Row]) -> list[Row]:
    """The newest state of each attempt: the one that comes last."""
    newest: dict[str, Row] = {}
    for row in rows:
        if row["segment_id"] is None or not row["state"]:
            continue
        known = newest.get(row["segment_id"])
        if known is None or STATES.index(known["state"]) < STATES.index(row["state"]):
            newest[row["segment_id"]] = row
    return list(newest.values())


def unneeded(rows: Iterable[Row]) -> Iterator[Row]:
    """Of the newest states those of our attempts that never finished, and of copies whose offsets others hold."""
    finished: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["state"] == _FINISHED:
            finished[row["topic_id"], row["partition"]].append(row)
        elif row["is_ours"] and row["state"] in (_STARTED, _DELETING):
            yield row
    for copies in finished.values():
        end = -1
        for row in sorted(copies, key=lambda row: (row["start_offset"], -row["end_offset"], row["segment_id"])):
            if row["end_offset"] <= end:
                yield row
            end = max(end, row["end_offset"])
