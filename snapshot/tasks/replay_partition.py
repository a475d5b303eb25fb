"""One partition replayed by a Spark task: INPUT rows in, rows of `partitions` out, around replay.replay_listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.replay_listing import FROM_THE_BEGINNING, ListingReplay, Replayed, Resume, told_at
from tiersnap.snapshot.replay.replay_start import StartState
from tiersnap.snapshot.replay.segment_runs import Run, WindowDecode
from tiersnap.snapshot.tables.facts import Fact, FactKind, StoredReplay, StoredResults, fact_batches, state_batches
from tiersnap.snapshot.tables.listed import ListedPartition
from tiersnap.snapshot.tasks.partition_input import PartitionInput


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
        listing = rows.listed.listing
        replayed = self.replay(listing, TableDecodes(rows), resume_of(rows.results))
        digest = self.options.digest(place=None if self.sink is None else self.sink.uri)
        facts = list(facts_of(replayed, rows.listed, listing, self.run, digest))
        yield from fact_batches(facts)
        if replayed.state is not None:
            yield from state_batches(facts[0], replayed.state.deltas)


@dataclass
class TableDecodes:
    """Decodes as they come, sorted, among the rows of one partition: a DecodeSource."""

    rows: PartitionInput

    def begin_at(self, offset: int) -> None:
        """Nothing: below where a replay begins there are no deltas among the rows."""

    def window(self) -> Iterator[WindowDecode]:
        """See DecodeSource."""
        return self.rows.window()

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """See DecodeSource; the cuts were made by the decode."""
        found = self.rows.decode(segment.base_offset)
        if found is None:
            return None
        decode, runs = found
        return runs, decode.end


def resume_of(results: StoredResults | None) -> Resume:
    """Return what the results of an earlier replay say to go on from."""
    replayed = None if results is None else results.replayed
    if results is None or replayed is None or replayed.state_offset is None:
        return FROM_THE_BEGINNING
    start = StartState(
        replayed.state_offset, results.state, replayed.history_from or 0, has_adopted=bool(replayed.has_adopted)
    )
    return Resume(start, results.snapshots)


def facts_of(
    replayed: Replayed, listed: ListedPartition, listing: PartitionListing, run: int, options_digest: str
) -> Iterator[Fact]:
    """Yield the facts of a replay.

    Args:
        listed: that `listing` was made of.
        options_digest: ReplayOptions.digest.
    """
    found, state = replayed.examination, replayed.state
    fact = partial(Fact, log_dir=listed.log_dir, topic=listed.topic, partition=listed.partition, run=run)
    stored = StoredReplay(
        facts=found.facts, fingerprint=f"{listed.fingerprint}:{options_digest}" if replayed.is_finished else ""
    )
    if found.partition.segments or not listing.partition.segments:
        stored = replace(
            stored,
            directory_id=listed.directory_id,
            cluster_id=listed.cluster_id,
            leader_epochs=listed.leader_epochs,
            encrypted_by=listed.remote.encrypted_by,
            unread_count=replayed.unread_count,
        )
    if state is not None:
        stored = replace(
            stored,
            state_offset=state.offset,
            state_chain=next(each.chain for each in listed.segments if each.base_offset == state.offset),
            history_from=state.history_from,
            has_adopted=state.has_adopted,
        )
    yield fact(kind=FactKind.REPLAYED, replay=stored)
    for snapshot in found.reached.values():
        yield fact(kind=FactKind.BOUNDARY, snapshot=snapshot)
    for segment in found.segments:
        yield fact(kind=FactKind.SEGMENT, segment=segment)
    for number, finding in enumerate(found.findings):
        yield fact(kind=FactKind.FINDING, part=number, finding=finding)
    for number, error in enumerate(replayed.errors):
        recorded = RecordedError.of(error, told_at(listing.partition, error))
        yield fact(kind=FactKind.ERROR, part=number, error=recorded)
