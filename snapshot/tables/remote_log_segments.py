"""Rows of `remote_log_segments`: KIP-405's states, and the newest of each attempt.

Follows org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiersnap.snapshot.codecs import pairs_of

COPY_STARTED = "COPY_SEGMENT_STARTED"
COPY_FINISHED = "COPY_SEGMENT_FINISHED"
DELETE_STARTED = "DELETE_SEGMENT_STARTED"
DELETE_FINISHED = "DELETE_SEGMENT_FINISHED"
# In the order in which an attempt enters them within a run.
STATES = (COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED)
Row = Mapping[str, Any]
# An id alone would do, but people give ids to topics by hand.
TOPIC_PARTITION = ("topic", "topic_id", "partition")
ATTEMPT_KEY = (*TOPIC_PARTITION, "segment_id")


def newest_states(rows: Iterable[Row]) -> list[Row]:
    """The row with the newest state of each attempt: of the latest run the furthest state.

    jobs.pipeline.listing.current says the same of a DataFrame.
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


def unneeded(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the newest states of our attempts that never finished, and of copies that another one makes needless.

    That is one which has all the offsets of a copy, under a last leader epoch that is not older: of two lineages the
    newer one is the log.
    """
    finished: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["state"] == COPY_FINISHED:
            finished[row["topic_id"], row["partition"]].append(row)
        elif row["is_ours"] and row["state"] in (COPY_STARTED, DELETE_STARTED):
            yield row
    for copies in finished.values():
        ends: dict[int, int] = {}  # of those that begin no later, by their last epoch
        for row in sorted(copies, key=_widest_first):
            epoch = _last_epoch(row)
            if any(row["end_offset"] <= end for newer, end in ends.items() if newer >= epoch):
                yield row
            ends[epoch] = max(ends.get(epoch, -1), row["end_offset"])


def _widest_first(row: Row) -> tuple[int, int, int, str]:
    return row["start_offset"], -row["end_offset"], -_last_epoch(row), row["segment_id"]


def _last_epoch(row: Row) -> int:
    epochs = pairs_of(row["leader_epochs"])
    return epochs[-1][0] if epochs else -1
