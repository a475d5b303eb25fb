"""Stage 4, replay: replays the decodes of the changed partitions, from the state that an earlier replay stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.known import is_true
from tiersnap.jobs.pipeline.newest import current_facts_among, newest_among
from tiersnap.jobs.pipeline.partition_input import (
    INPUT_ORDER,
    PartitionInput,
    Source,
    decode_rows,
    fact_rows,
    input_rows,
    united,
)
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.replay_listing import FROM_THE_BEGINNING, ListingReplay, Replayed, Resume, error_at
from tiersnap.snapshot.replay.replay_start import StartState
from tiersnap.snapshot.replay.segment_runs import Run, WindowDecode
from tiersnap.snapshot.tables.deltas import parts
from tiersnap.snapshot.tables.facts import (
    DELTAS,
    Fact,
    FactKind,
    StoredReplay,
    StoredResults,
    fact_batches,
    news,
    state_batches,
)
from tiersnap.snapshot.tables.listed import ListedPartition
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY

# Largest number of segments whose keys are broadcast. A broadcast join does not shuffle the table's rows.
_MOST_SENT = 100_000
# Largest number of partitions to name in a filter.
_MOST_NAMED = 100


@dataclass(frozen=True)
class ReplayPartition(ListingReplay):
    """The task that replays one partition: rows of `input_rows` to rows of PARTITIONS."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay the partition, and yield those facts of the replay that the tables do not contain yet.

        Raises:
            ValueError: the rows are not in order.
        """
        rows = PartitionInput(batches)
        if rows.listed is None:
            raise ValueError(
                "Spark did not keep the order of the sort: decodes came before the listing of their partition"
            )
        listing = rows.listed.listing
        replayed = self.replay(listing, TableDecodes(rows), resume_of(rows.results))
        digest = self.options.digest(place=None if self.sink is None else self.sink.uri)
        facts = list(facts_of(replayed, rows.listed, listing, self.run, digest))
        if replayed.state is None:
            yield from fact_batches(news(rows.facts, facts, 0, self.run))
            return
        state = replayed.state.deltas
        yield from fact_batches(news(rows.facts, facts, len(list(parts(state))), self.run))
        yield from state_batches(facts[0], state)


@dataclass
class TableDecodes:
    """The DecodeSource over the sorted rows of one partition."""

    rows: PartitionInput

    def begin_at(self, offset: int) -> None:
        """Do nothing. Segments below `offset` need not be skipped, because their rows have no deltas."""

    def window(self) -> Iterator[WindowDecode]:
        """See DecodeSource."""
        return self.rows.window()

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """See DecodeSource. `cuts` are ignored, because the stored decode is divided at these offsets already."""
        found = self.rows.decode(segment.base_offset)
        if found is None:
            return None
        decode, runs = found
        return runs, decode.end


def resume_of(results: StoredResults | None) -> Resume:
    """Return the state and the snapshots from which a replay continues; FROM_THE_BEGINNING if there is no state."""
    if results is None:
        return FROM_THE_BEGINNING
    replayed = results.replayed
    if replayed is None or replayed.state_offset is None:
        return FROM_THE_BEGINNING
    start = StartState(
        replayed.state_offset, results.state, replayed.history_from or 0, has_adopted=bool(replayed.has_adopted)
    )
    return Resume(start, results.snapshots)


def facts_of(
    replayed: Replayed, listed: ListedPartition, listing: PartitionListing, run: int, options_digest: str
) -> Iterator[Fact]:
    """Yield the facts of a replay; the REPLAYED fact is the first.

    Args:
        replayed: result of the replay.
        listed: the listed partition.
        listing: the PartitionListing of the same partition.
        run: number of the run.
        options_digest: ReplayOptions.digest.
    """
    found, state = replayed.examination, replayed.state
    fact = partial(Fact, log_dir=listed.log_dir, topic=listed.topic, partition=listed.partition, run=run)
    fingerprint = ""
    if replayed.is_finished:
        fingerprint = f"{listed.fingerprint}:{options_digest}"
    stored = StoredReplay(facts=found.facts, fingerprint=fingerprint)
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
        recorded = RecordedError.of(error, error_at(listing.partition, error))
        yield fact(kind=FactKind.ERROR, part=number, error=recorded)


@dataclass(frozen=True)
class Changed:
    """The partitions to replay."""

    rows: DataFrame  # PARTITION_KEY and `start_offset`, cached
    partitions: int  # number of partitions
    segments: int  # number of their segments

    def of_them(self, table: DataFrame) -> DataFrame:
        """Return the table. If the partitions are few, filter by topic and partition, so that Delta skips other files.

        The result may still contain rows of other partitions.
        """
        if self.partitions > _MOST_NAMED:
            return table
        topics = [row.topic for row in self._names]
        numbers = [row.partition for row in self._names]
        return table.where(F.col("topic").isin(topics) & F.col("partition").isin(numbers))

    @cached_property
    def _names(self) -> list[Row]:
        return self.rows.select("topic", "partition").limit(_MOST_NAMED).collect()

    def sent(self, keys: DataFrame) -> DataFrame:
        """Return `keys` for a join. If there are few segments to replay, mark the keys for broadcast."""
        return F.broadcast(keys) if self.segments <= _MOST_SENT else keys


def partition_input(
    listed: DataFrame, changed: Changed, segments: DataFrame, partitions: DataFrame, *, is_bounded: bool = False
) -> DataFrame:
    """Return the input rows of the changed partitions. No other function of a run reads the deltas in the tables.

    Args:
        listed: the listed partitions (schema LISTED).
        changed: the partitions to replay.
        segments: the table, with the decodes of this run.
        partitions: the table.
        is_bounded: whether partitions may have a scan window.
    """
    key = list(PARTITION_KEY)
    ours = listed.join(changed.rows, on=key)
    # Join with the listed segments: the table keeps decodes of deleted ones until `tiersnap maintain tables`.
    bases = ours.select(*key, "start_offset", F.explode("segments.base_offset").alias("base_offset"))
    decodes = newest_among(changed.of_them(segments), SEGMENT_KEY, bases, "start_offset", sent=changed.sent)
    # Below the start offset the replay needs the end of each segment, but no deltas.
    is_below = is_true(F.col("base_offset") < F.col("start_offset"))
    decodes = decodes.where(~is_below | (F.col("part") == 0))
    decodes = decodes.withColumn("deltas", F.when(~is_below, F.col("deltas")))
    rows = [
        input_rows(ours, Source.LISTED, schemas.LISTED.names),
        fact_rows(_facts(changed.of_them(partitions), changed), schemas.PARTITIONS.names),
        decode_rows(decodes),
    ]
    if is_bounded:
        # The replay reads a window twice, and a task can read each row once. So send these rows twice.
        windows = ours.where("window_offset is not null and start_offset is null").select(*key, "window_offset")
        shown = decodes.join(windows, on=key).where("base_offset >= window_offset")
        rows.append(decode_rows(shown, Source.WINDOW))
    return united(rows)


def _facts(partitions: DataFrame, changed: Changed) -> DataFrame:
    """Return the current facts of the changed partitions. The stored state is null if the replay may not use it."""
    facts = current_facts_among(partitions, changed.rows, "start_offset", sent=changed.sent)
    may_start = F.isnotnull("start_offset")
    facts = facts.withColumn("state_offset", F.when(may_start, F.col("state_offset")))
    return facts.withColumn(DELTAS, F.when(may_start, F.col(DELTAS)))


def replay(rows: DataFrame, task: ReplayPartition, *, tasks: int | None = None) -> DataFrame:
    """Return the facts of the replays (schema PARTITIONS). Each task replays partitions and uploads their snapshots."""
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, task, schemas.PARTITIONS, tasks=tasks)
