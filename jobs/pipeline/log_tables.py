"""The log of one partition, read from the tables: the producer state at the log end, and where each producer wrote.

The table `segments` has the producer deltas of each segment. The table `partitions` has the state at the active
segment's base offset, from the newest replay. State and deltas give the result of a replay without reading the log.
The newest batches of each producer are known only if `tiersnap decode` wrote the headers of the replayed files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from tiersnap.jobs.pipeline.partition_input import PartitionInput
from tiersnap.snapshot.exactly_once.simulate.replica_state import NO_BATCHES, data_batches
from tiersnap.snapshot.exactly_once.simulate.sightings import Sightings
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.producer_fold import ProducerFold, to_entries
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.tables.facts import StoredReplay, StoredResults


@dataclass(frozen=True, slots=True)
class LogTables:
    """The rows of one partition that was replayed.

    Attributes:
        results: all results of the newest replay.
        replayed: the REPLAYED row of that replay.
        state: entries (ENTRY_DTYPE) at the active segment's base offset (`state_offset`); None if the tables have gaps.
        end: entries (ENTRY_DTYPE) at the log end; None if the tables have gaps.
        after: deltas (DELTA_DTYPE) from `state_offset` to the log end.
        sightings: for each producer, its first and last decoded ranges of batches (Run).
        read_from: all segments from this base offset to the log end were decoded.
        closed_timestamp: ms, largest record timestamp of the last closed segment; -1 if no segment is closed.
        batches: the newest five batches of each producer (BATCH_DTYPE); empty if the tables lack headers.
        has_headers: whether `batches` are complete, and so equal the broker's cache (ProducerStateEntry).
    """

    results: StoredResults
    replayed: StoredReplay
    state: np.ndarray | None
    end: np.ndarray | None
    after: np.ndarray
    sightings: Sightings
    read_from: int
    closed_timestamp: int
    batches: np.ndarray
    has_headers: bool


def read_log_tables(rows: PartitionInput) -> LogTables | None:
    """Return the tables of one partition; None if it was never replayed. The call consumes all of `rows`."""
    results = rows.results
    if results is None or results.replayed is None:
        return None
    segments, state, offset = results.segments, results.state, results.replayed.state_offset
    sightings, after, decoded, batch_count, closed_timestamp = Sightings(), ProducerFold(), set(), 0, -1
    for decode, runs in rows.decodes():
        decoded.add(decode.file.base_offset)
        batch_count += decode.end.batch_count
        for run in runs:
            sightings.add(run)
            if offset is not None and run.start_offset >= offset:
                after.combine(run.deltas)
        if decode.file.next_base_offset is not None:
            closed_timestamp = decode.end.max_timestamp
    read_from = _read_from(segments, decoded)
    is_whole = offset is not None and read_from <= offset and not any(map(_is_damaged, segments.values()))
    headers, header_count = _headers(rows)
    is_complete = header_count == batch_count and decoded == segments.keys()
    end = None
    if is_whole:
        whole = ProducerFold(state.size)
        whole.combine(state)
        whole.combine(after.deltas())
        end = whole.entries()
    return LogTables(
        results,
        results.replayed,
        to_entries(state) if is_whole else None,
        end,
        after.deltas(),
        sightings,
        read_from,
        closed_timestamp,
        headers if is_complete else NO_BATCHES,
        is_complete,
    )


def _read_from(segments: dict[int, SegmentFacts], decoded: set[int]) -> int:
    """Return the lowest base offset such that all segments from there to the log end are decoded.

    If the last segment is not decoded, return its end offset, or its base offset for an active segment.
    """
    found = max((each.next_base_offset or base for base, each in segments.items()), default=0)
    for base in sorted(segments, reverse=True):
        if base not in decoded:
            return segments[base].next_base_offset or found
        found = base
    return found


def _is_damaged(segment: SegmentFacts) -> bool:
    return segment.damage_kind not in (None, FindingKind.EMPTY_SEGMENT)


def _headers(rows: PartitionInput) -> tuple[np.ndarray, int]:
    """Return the data batches (BATCH_DTYPE) in offset order, and the number of headers in the tables."""
    count, found = 0, [np.empty(0, RECORD_BATCH_DTYPE)]
    for batch in rows.headers():
        is_count = pc.is_valid(batch["header_count"])
        count = max([count, *batch["header_count"].filter(is_count).to_numpy().tolist()])
        told = batch.filter(pc.invert(is_count))
        headers = np.zeros(told.num_rows, RECORD_BATCH_DTYPE)
        for name in set(told.schema.names) & set(RECORD_BATCH_DTYPE.names or ()):
            headers[name] = told[name].to_numpy()
        found.append(headers)
    return data_batches(np.concatenate(found)), count
