"""Rows of `remote_log_segments`: KIP-405 states of copy attempts, and the newest state of each attempt.

Follows org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.snapshot.errors import UnknownTransactionsError
from tiersnap.snapshot.replay.remote_listing import CopyEvent, ListedCopy, RemoteSegmentState
from tiersnap.snapshot.rows import Int32, Rows
from tiersnap.snapshot.tables.newest import newest_of

COPY_STARTED = RemoteSegmentState.COPY_SEGMENT_STARTED
COPY_FINISHED = RemoteSegmentState.COPY_SEGMENT_FINISHED
DELETE_STARTED = RemoteSegmentState.DELETE_SEGMENT_STARTED
DELETE_FINISHED = RemoteSegmentState.DELETE_SEGMENT_FINISHED
# The topic id would be enough, but users may give ids to topics by hand.
TOPIC_PARTITION = ("topic", "topic_id", "partition")
STATES = tuple(RemoteSegmentState)
ATTEMPT_KEY = (*TOPIC_PARTITION, "segment_id")
REFUSAL = UnknownTransactionsError.__name__
"""The `error_type` of an upload that refused a segment whose snapshot lacks a transaction."""


EVENTS = Rows(CopyEvent)
REMOTE_LOG_SEGMENTS = EVENTS.schema


@dataclass(frozen=True, slots=True)
class AttemptState:
    """A state that a copy attempt entered, with the number of the run that saw it."""

    topic: str
    topic_id: str | None
    partition: Int32
    attempt: ListedCopy
    run: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at {self.attempt.base_offset}: {self.attempt.segment_id}"

    @property
    def is_there(self) -> bool:
        """Return whether the copy attempt is finished or in progress."""
        return self.attempt.state in (COPY_STARTED, COPY_FINISHED)


_STATES = Rows(AttemptState)
STATE_COLUMNS = _STATES.names


def read_states(rows: pa.RecordBatch) -> Iterator[AttemptState]:
    """Yield the rows of REMOTE_LOG_SEGMENTS that have a segment id and a state."""
    is_state = pc.and_(pc.is_valid(rows["segment_id"]), pc.is_valid(rows["state"]))
    return _STATES.read([rows.filter(is_state)])


def read_refusals(rows: pa.RecordBatch) -> Iterator[CopyEvent]:
    """Yield the uploads that were refused because the segment's snapshot lacks a transaction."""
    return EVENTS.read([rows.filter(pc.equal(rows["error_type"], pa.scalar(REFUSAL)))])


def newest_states(states: Iterable[AttemptState]) -> list[AttemptState]:
    """Return the newest state of each attempt.

    If the latest run saw several states of an attempt, the last one in the order of STATES is the newest. If several
    rows have this state, return a row that is published. jobs.pipeline.remote_states.current does the same for a
    DataFrame.
    """
    return list(newest_of(states, _attempt, _order).values())


def _attempt(state: AttemptState) -> tuple[str, str | None, int, str]:
    return state.topic, state.topic_id, state.partition, state.attempt.segment_id


def _order(state: AttemptState) -> tuple[int, int, bool]:
    return state.run, STATES.index(state.attempt.state), bool(state.attempt.is_published)


def unneeded(states: Iterable[AttemptState]) -> Iterator[AttemptState]:
    """Yield our attempts that never finished, and the finished copies that another copy replaces.

    Copy A replaces copy B if A covers all offsets of B, and if A's last leader epoch is not older than B's. The epochs
    are compared because two copies may have different lineages. The log has the lineage with the newer epoch.
    """
    finished: defaultdict[tuple[str | None, int], list[AttemptState]] = defaultdict(list)
    for each in states:
        if each.attempt.state is COPY_FINISHED:
            finished[each.topic_id, each.partition].append(each)
        elif each.attempt.is_ours and each.attempt.state in (COPY_STARTED, DELETE_STARTED):
            yield each
    for copies in finished.values():
        ends: dict[int, int] = {}  # largest end offset (exclusive) of the copies before this one, by their last epoch
        for each in sorted(copies, key=_widest_first):
            epoch, end_offset = _last_epoch(each), each.attempt.next_base_offset
            if any(end_offset <= end for newer, end in ends.items() if newer >= epoch):
                yield each
            ends[epoch] = max(ends.get(epoch, -1), end_offset)


def _widest_first(state: AttemptState) -> tuple[int, int, int, str]:
    attempt = state.attempt
    return attempt.base_offset, -attempt.next_base_offset, -_last_epoch(state), attempt.segment_id


def _last_epoch(state: AttemptState) -> int:
    epochs = state.attempt.leader_epochs
    return epochs[-1][0] if epochs else -1
