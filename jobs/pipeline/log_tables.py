"""The log of one partition as the tables tell it: the state at its end, and where every producer was seen.

Decodes say what each segment does to each producer; the newest replay keeps the state at the active segment's base
offset, with what it took from a broker's snapshot. Together they are what a replay of the log would give, without
reading it. The newest batches of each producer are known where `tiersnap decode` wrote the headers of the same files.
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
    """One partition that was replayed.

    Attributes:
        state: entries (ENTRY_DTYPE) at `state_offset`, the active segment's base offset.
        end: entries at the log end; None, like the state, where the tables do not lead there.
        after: DELTA_DTYPE, what lies between the two.
        sightings: of every run that was decoded.
        read_from: base offset from which on every segment was decoded.
        closed_timestamp: ms, largest record timestamp of the last closed segment, -1 without one.
        batches: BATCH_DTYPE, the newest five of each producer; none without headers.
        has_headers: `batches` are all that a broker would have in its cache.
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
    """Read the rows of one partition to their end; None of one that was never replayed."""
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
    """Base offset of the first of the decoded segments behind which none is missing; the log end without one."""
    found = max((each.next_base_offset or base for base, each in segments.items()), default=0)
    for base in sorted(segments, reverse=True):
        if base not in decoded:
            return segments[base].next_base_offset or found
        found = base
    return found


def _is_damaged(segment: SegmentFacts) -> bool:
    return segment.damage_kind not in (None, FindingKind.EMPTY_SEGMENT)


def _headers(rows: PartitionInput) -> tuple[np.ndarray, int]:
    """BATCH_DTYPE in offset order, and how many headers the tables have."""
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
