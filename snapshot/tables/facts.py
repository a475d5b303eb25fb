"""Rows of the table `partitions`: the facts that a replay found, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from tiersnap.snapshot.columns import LogDir, PartitionNumber, RunNumber, Topic
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.rows import Int32, Rows
from tiersnap.snapshot.tables.deltas import NO_DELTAS, from_lists, parts, to_lists
from tiersnap.snapshot.tables.schema_parts import DELTA, PARTITION_KEY, field_of, schema_of


class FactKind(StrEnum):
    """The kind of a row of `partitions`."""

    REPLAYED = "REPLAYED"  # one per replay: its inputs, and the offset at which the next replay may start
    STATE = "STATE"  # a part of the producer state at that offset
    BOUNDARY = "BOUNDARY"  # the state at a snapshot offset, compared with the snapshot file
    SEGMENT = "SEGMENT"  # the facts of a segment that the gate needs
    GONE = "GONE"  # the only row of its run: the partition is no longer in the log directory
    FINDING = "FINDING"
    ERROR = "ERROR"


# The newest row of a key is valid, unless its `has_ended` is set. `snapshot_offset` is null except for a BOUNDARY,
# `base_offset` except for a SEGMENT.
FACT_KEY = (*PARTITION_KEY, "kind", "snapshot_offset", "base_offset", "part")
# The columns that every kind of fact has.
FACT_COLUMNS = (*PARTITION_KEY, "kind", "part", "run", "has_ended")
# The kinds of facts that `readiness` is computed from.
JUDGED = (FactKind.REPLAYED, FactKind.BOUNDARY, FactKind.SEGMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplay:
    """The inputs of a replay, and the offset at which the next replay may start."""

    facts: PartitionFacts
    fingerprint: Annotated[
        str,
        Meta(
            description='in a row of kind REPLAYED, a digest of listing and settings; "" if the partition must be '
            "replayed again"
        ),
    ] = ""
    directory_id: Annotated[str | None, Meta(description="directory.id of the log directory; null if it has none")] = (
        None
    )
    cluster_id: Annotated[str | None, Meta(description="cluster id of the log directory; null if it has none")] = None
    leader_epochs: Annotated[
        LeaderEpochs | None, Meta(description="leader epochs and start offsets, from the checkpoint or the batches")
    ] = None
    encrypted_by: Annotated[
        str | None, Meta(description="key of a manifest that shows that the plugin encrypts; null if none does")
    ] = None
    state_offset: Annotated[
        int | None, Meta(description="exclusive offset at which the next replay may start; null if there is no state")
    ] = None
    state_chain: Annotated[str | None, Meta(description="digest of the files that lie below state_offset")] = None
    history_from: Annotated[
        int | None, Meta(description="offset below which the state may lack batches; 0 if it lacks none")
    ] = None
    has_adopted: Annotated[bool | None, Meta(description="whether the state was taken from a broker's snapshot")] = None
    unread_count: Annotated[int | None, Meta(description="snapshot files that could not be read")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A row of `partitions`, without the deltas of a STATE. Only the field that `kind` names has an object."""

    log_dir: LogDir
    topic: Topic
    partition: PartitionNumber
    kind: Annotated[FactKind, Meta(description="kind of the fact: the columns of other kinds are null")]
    part: Annotated[Int32, Meta(description="number of the part of a STATE, of a FINDING or of an ERROR; else 0")] = 0
    run: RunNumber = 0
    has_ended: Annotated[
        bool,
        Meta(description="whether the fact is no longer true after this run; then the other columns repeat the fact"),
    ] = False
    replay: StoredReplay | None = None
    snapshot: SnapshotAt | None = None
    segment: SegmentFacts | None = None
    finding: Finding | None = None
    error: RecordedError | None = None

    @property
    def place(self) -> tuple[FactKind, int, int]:
        """Return kind, offset and part, which identify the fact inside its partition (FACT_KEY)."""
        if self.snapshot is not None:
            return self.kind, self.snapshot.snapshot_offset, self.part
        return self.kind, 0 if self.segment is None else self.segment.base_offset, self.part


FACTS = Rows(Fact)
DELTAS = "deltas"  # the column of a STATE
_STATE = "of a STATE: producer deltas of all batches below state_offset, at most 2,000 per row"
PARTITIONS = schema_of(*FACTS.schema, field_of(DELTAS, pa.list_(DELTA), _STATE, nullable=True))


def fact_batches(facts: Iterable[Fact], *, size: int = 4096) -> Iterator[pa.RecordBatch]:
    """Yield facts as batches of PARTITIONS, `size` rows each."""
    waiting = iter(facts)
    while some := list(islice(waiting, size)):
        yield _with_deltas(FACTS.batch(some), pa.nulls(len(some), pa.list_(DELTA)))


def state_batches(fact: Fact, deltas: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Yield the state (DELTA_DTYPE) of a replay as batches of PARTITIONS, one part per batch."""
    for part, piece in enumerate(parts(deltas)):
        yield _with_deltas(FACTS.batch([replace(fact, kind=FactKind.STATE, part=part, replay=None)]), to_lists([piece]))


def _with_deltas(facts: pa.RecordBatch, deltas: pa.Array[pa.Scalar[pa.DataType]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*facts.columns, deltas], schema=PARTITIONS)


# Every replay writes its own rows of these kinds, because readers count them per run.
_OF_EVERY_REPLAY = (FactKind.REPLAYED, FactKind.ERROR)


def news(before: Iterable[Fact], found: Iterable[Fact], parts: int, run: int) -> Iterator[Fact]:
    """Yield the rows that a replay appends: new and changed facts, and the ended facts.

    A fact has ended if the replay did not find it again.

    Args:
        before: the valid facts of the partition.
        found: all facts of the replay except its STATE.
        parts: number of parts of the STATE.
        run: number of the replay's run.
    """
    stored = {each.place: each for each in before}
    for part in range(parts):
        stored.pop((FactKind.STATE, 0, part), None)
    for each in found:
        known = stored.pop(each.place, None)
        if each.kind in _OF_EVERY_REPLAY or known is None or replace(known, run=run) != each:
            yield each
    for ended in stored.values():
        yield replace(ended, run=run, has_ended=True)


def read_facts(batch: pa.RecordBatch) -> list[tuple[Fact, np.ndarray]]:
    """Return rows of PARTITIONS with their deltas (DELTA_DTYPE). Without the column `deltas` all deltas are empty."""
    facts = list(FACTS.read([batch]))
    if DELTAS not in batch.schema.names:
        return [(fact, NO_DELTAS) for fact in facts]
    return list(zip(facts, from_lists(batch[DELTAS]), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class StoredResults:
    """The valid facts of one partition, from its newest replay.

    Attributes:
        replayed: the replay; None if the partition is gone.
        state: producer state (DELTA_DTYPE) from which the next replay may start.
        snapshots, segments: facts by offset, ascending.
        findings: damage that the replay found, in the order of the replay.
        run: number of the replay's run.
    """

    log_dir: str
    topic: str
    partition: int
    replayed: StoredReplay | None
    state: np.ndarray
    snapshots: dict[int, SnapshotAt]
    segments: dict[int, SegmentFacts]
    findings: tuple[Finding, ...] = ()
    run: int = 0

    @classmethod
    def of(cls, rows: Sequence[tuple[Fact, np.ndarray]]) -> StoredResults:
        """Group the facts of one partition by kind. `rows` must not be empty."""
        facts = sorted(map(itemgetter(0), rows), key=attrgetter("part"))
        replay = next((each for each in facts if each.replay is not None), None)
        origin = facts[0] if replay is None else replay
        states = sorted(((fact.part, deltas) for fact, deltas in rows), key=itemgetter(0))
        snapshots = {each.snapshot.snapshot_offset: each.snapshot for each in facts if each.snapshot is not None}
        segments = {each.segment.base_offset: each.segment for each in facts if each.segment is not None}
        return cls(
            *(origin.log_dir, origin.topic, origin.partition, origin.replay),
            np.concatenate([NO_DELTAS, *(deltas for _, deltas in states)]),
            dict(sorted(snapshots.items())),
            dict(sorted(segments.items())),
            tuple(each.finding for each in facts if each.finding is not None),
            origin.run,
        )


def newest_results(facts: pa.Table) -> Iterator[StoredResults]:
    """Yield the valid facts of each partition. A partition that is gone has no `replayed`.

    Columns of FACT_KEY may be absent if they are null in all rows.
    """
    key = [name for name in FACT_KEY if name in facts.schema.names]
    # Arrow's aggregation does not accept list columns, so row numbers are grouped instead of rows.
    numbered = facts.select([*key, "run"]).append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    newest = numbered.sort_by("run").group_by(key, use_threads=False).aggregate([("number", "last")])
    in_order = newest.sort_by([(name, "ascending") for name in (*PARTITION_KEY, "number_last")])
    ordered = facts.take(in_order["number_last"])
    ordered = ordered.filter(pc.invert(ordered["has_ended"]))
    rows = (row for batch in ordered.to_batches(max_chunksize=8192) for row in read_facts(batch))
    for _, group in groupby(rows, key=lambda row: (row[0].log_dir, row[0].topic, row[0].partition)):
        yield StoredResults.of(list(group))
