"""Rows of `remote_log_segments`: KIP-405's states, the newest of each attempt, and copies as the gate takes them.

Follows org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.coverage import CopyFacts

COPY_STARTED = "COPY_SEGMENT_STARTED"
COPY_FINISHED = "COPY_SEGMENT_FINISHED"
DELETE_STARTED = "DELETE_SEGMENT_STARTED"
DELETE_FINISHED = "DELETE_SEGMENT_FINISHED"
# In the order in which an attempt enters them within a run.
STATES = (COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED)
Row = Mapping[str, Any]
ATTEMPT_KEY = ("topic_id", "partition", "segment_id")


def newest_states(rows: Iterable[Row]) -> list[Row]:
    """The row with the newest state of each attempt: of the latest run the furthest state.

    snapshot.spark.remote.current says the same of a DataFrame.
    """
    newest: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row["segment_id"] is None or row["state"] is None:
            continue
        attempt = tuple(row[name] for name in ATTEMPT_KEY)
        known = newest.get(attempt)
        if known is None or _order(known) < _order(row):
            newest[attempt] = row
    return list(newest.values())


def _order(row: Row) -> tuple[int, int]:
    return row["run"], STATES.index(row["state"])


def finished_copies(rows: Iterable[Row]) -> Iterator[CopyFacts]:
    """The complete copies among rows of REMOTE_LOG_SEGMENTS or of listed.COPY; `end_offset` becomes exclusive."""
    for row in rows:
        if row["state"] == COPY_FINISHED:
            yield CopyFacts(row["start_offset"], row["end_offset"] + 1, to_leader_epochs(row["leader_epochs"]))


def to_leader_epochs(rows: Iterable[Row] | None) -> LeaderEpochs:
    """Ascending (epoch, start offset), of a list of LEADER_EPOCH; none for null."""
    return tuple((row["epoch"], row["start_offset"]) for row in rows or ())


def unneeded(rows: Iterable[Row]) -> Iterator[Row]:
    """Of the newest states those of our attempts that never finished, and of copies whose offsets others hold."""
    finished: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["state"] == COPY_FINISHED:
            finished[row["topic_id"], row["partition"]].append(row)
        elif row["is_ours"] and row["state"] in (COPY_STARTED, DELETE_STARTED):
            yield row
    for copies in finished.values():
        end = -1
        for row in sorted(copies, key=lambda row: (row["start_offset"], -row["end_offset"], row["segment_id"])):
            if row["end_offset"] <= end:
                yield row
            end = max(end, row["end_offset"])
