"""One partition replayed by a Spark task: INPUT rows in, rows of `partitions` out, around replay.replay_listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.codecs import Row
from tiersnap.snapshot.errors import recorded
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.replay_listing import FROM_THE_BEGINNING, ListingReplay, Replayed, Resume, told_at
from tiersnap.snapshot.replay.replay_start import StartState
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.tables.decodes import DECODE_ROWS
from tiersnap.snapshot.tables.deltas import NO_DELTAS, parts
from tiersnap.snapshot.tables.facts import (
    FINDING,
    PARTITION,
    SEGMENT,
    FactKind,
    fact,
    snapshot_of,
    snapshot_row,
    to_batches,
)
from tiersnap.snapshot.tables.listed import LISTED_ROWS, ListedPartition
from tiersnap.snapshot.tasks.partition_input import PartitionInput

# Columns of LISTED that a replay leaves in the table.
_AS_LISTED = ("directory_id", "cluster_id", "leader_epochs", "expired_to", "encrypted_by")


@dataclass(frozen=True)
class ReplayPartition(ListingReplay):
    """INPUT rows of one partition -> PARTITIONS rows."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay the partition.

        Raises:
            ValueError: the rows are not in order.
        """
        rows = PartitionInput(batches)
        if rows.listed is None:
            raise ValueError("no listing before the decodes: Spark did not keep the order of the sort")
        listed = LISTED_ROWS.of_row(rows.listed)
        listing = listed.listing
        replayed = self.replay(listing, TableDecodes(rows), resume_of(rows.facts))
        digest = self.options.digest(place=None if self.sink is None else self.sink.uri)
        yield from to_batches(fact_rows(replayed, listed, listing, self.run, digest))


@dataclass
class TableDecodes:
    """Decodes as they come, sorted, among the rows of one partition: a DecodeSource."""

    rows: PartitionInput

    def begin_at(self, offset: int) -> None:
        """Nothing: below where a replay begins there are no deltas among the rows."""

    def window(self) -> Iterator[tuple[int, np.ndarray]]:
        """See DecodeSource."""
        return self.rows.window()

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """See DecodeSource; the cuts were made by the decode."""
        found = self.rows.decode(segment.base_offset)
        if found is None:
            return None
        end = DECODE_ROWS.of_row(found[0]).end
        if end.finding is not None:
            end = replace(end, finding=replace(end.finding, path=segment.log.path))
        return found[1], end


def resume_of(facts: Iterable[Row]) -> Resume:
    """Return what rows of `partitions` say of an earlier replay."""
    rows = list(facts)
    replayed = next((row for row in rows if row["kind"] == FactKind.REPLAYED), None)
    if replayed is None or replayed["state_offset"] is None:
        return FROM_THE_BEGINNING
    states = sorted((row for row in rows if row["kind"] == FactKind.STATE), key=lambda row: row["part"])
    deltas = np.concatenate([NO_DELTAS, *(row["deltas"] for row in states)])
    start = StartState(replayed["state_offset"], deltas, replayed["history_from"], replayed["has_adopted"])
    snapshots = (snapshot_of(row) for row in rows if row["kind"] == FactKind.BOUNDARY)
    return Resume(start, {each.offset: each for each in snapshots})


def fact_rows(
    replayed: Replayed, listed: ListedPartition, listing: PartitionListing, run: int, options_digest: str
) -> Iterator[Row]:
    """Yield rows of PARTITIONS as dicts, `deltas` as arrays (DELTA_DTYPE).

    Args:
        listed: that `listing` was made of.
        options_digest: ReplayOptions.digest.
    """
    key = {"log_dir": listed.log_dir, "topic": listed.topic, "partition": listed.partition}
    found, state = replayed.examination, replayed.state
    chains = {segment.base_offset: segment.chain for segment in listed.segments}
    as_listed = LISTED_ROWS.to_row(listed)
    is_unknown = bool(listing.partition.segments and not found.partition.segments)
    yield fact(
        key,
        FactKind.REPLAYED,
        run=run,
        fingerprint=f"{listed.fingerprint}:{options_digest}" if replayed.is_finished else "",
        **PARTITION.to_row(found.facts),
        **({} if is_unknown else {name: as_listed[name] for name in _AS_LISTED}),
        state_offset=None if state is None else state.offset,
        state_chain=None if state is None else chains[state.offset],
        history_from=None if state is None else state.history_from,
        has_adopted=None if state is None else state.has_adopted,
        unread_count=None if is_unknown else replayed.unread_count,
    )
    if state is not None:
        for number, piece in enumerate(parts(state.deltas)):
            yield fact(key, FactKind.STATE, run=run, part=number, deltas=piece)
    for snapshot in found.reached.values():
        yield fact(key, FactKind.BOUNDARY, run=run, **snapshot_row(snapshot))
    for segment in found.segments:
        yield fact(key, FactKind.SEGMENT, run=run, **SEGMENT.to_row(segment))
    for number, finding in enumerate(found.findings):
        yield fact(key, FactKind.FINDING, run=run, part=number, **FINDING.to_row(finding))
    for number, error in enumerate(replayed.errors):
        message = told_at(listing.partition, error)
        yield fact(key, FactKind.ERROR, run=run, part=number, message=message, **recorded(error))
