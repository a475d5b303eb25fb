"""Rows of the table `partitions`: what a replay found of one partition, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.snapshot.codecs import RowCodec
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt, StoredAt
from tiersnap.snapshot.replay.snapshot_comparison import Comparison, SnapshotFile
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.tables.deltas import NO_DELTAS, columns_of, from_lists, to_lists
from tiersnap.snapshot.tables.schemas import LEADER_EPOCH, OPEN_TRANSACTION, PARTITION_KEY, PARTITIONS


class FactKind(StrEnum):
    """The kind of a row of `partitions`."""

    REPLAYED = "REPLAYED"  # one a replay: what it was made of, and where the next one may start
    STATE = "STATE"  # a part of the state to start from
    BOUNDARY = "BOUNDARY"  # the state at an offset, beside the file that was found there
    SEGMENT = "SEGMENT"  # what the gate must know of a segment
    GONE = "GONE"  # alone in its run: the partition is not where it was
    FINDING = "FINDING"
    ERROR = "ERROR"


# What `readiness` is a view of.
JUDGED = (FactKind.REPLAYED, FactKind.BOUNDARY, FactKind.SEGMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplay:
    """The origin of a replay, and the place where the next one may start.

    Attributes:
        fingerprint: of the listing and the settings; "" = replay it again.
        encrypted_by: key of a manifest that shows that the plugin encrypts; None where none does.
        state_offset: exclusive; None where there is no state to start from.
        state_chain: digest of the files below it.
        history_from, has_adopted: see StartState.
        unread_count: snapshot files that could not be read.
    """

    facts: PartitionFacts
    fingerprint: str = ""
    directory_id: str | None = None
    cluster_id: str | None = None
    leader_epochs: LeaderEpochs | None = None
    encrypted_by: str | None = None
    state_offset: int | None = None
    state_chain: str | None = None
    history_from: int | None = None
    has_adopted: bool | None = None
    unread_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A finding, or an error."""

    finding_kind: FindingKind | None = None
    path: str | None = None
    position: int | None = None
    message: str
    is_transient: bool | None = None
    error_type: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """A row: the fields up to `run` are its key, and of the others that of its kind is set.

    Attributes:
        deltas: DELTA_DTYPE, a part of a state.
    """

    log_dir: str
    topic: str
    partition: int
    kind: FactKind
    offset: int = 0
    part: int = 0
    run: int = 0
    replayed: StoredReplay | None = None
    boundary: SnapshotAt | None = None
    segment: SegmentFacts | None = None
    problem: Problem | None = None
    deltas: np.ndarray | None = None


# What is said of a segment whose snapshot nobody asks for: that is a row of its own.
NOT_READ = Comparison(SnapshotVerdict.UNVERIFIED, "not read from the table")
_SNAPSHOT = RowCodec(
    SnapshotAt,
    pairs={"open_transactions": OPEN_TRANSACTION},
    parts={
        "comparison": RowCodec(Comparison, columns={"strict": "found"}),
        "file": RowCodec(SnapshotFile, columns={"size": "file_bytes", "crc32c": "file_crc"}),
        "stored": RowCodec(
            StoredAt,
            columns={"key": "object_key", "crc32c": "object_crc"},
            values={"is_mended": {True: True, False: None}},
        ),
    },
)
_SEGMENT = RowCodec(
    SegmentFacts,
    columns={
        "base_offset": "offset",
        "size": "size_bytes",
        "largest_timestamp": "max_timestamp",
        "damage_kind": "finding_kind",
    },
    given={"snapshot": NOT_READ},
)
_FACT_ROWS = RowCodec(
    Fact,
    structs={
        "replayed": RowCodec(
            StoredReplay, pairs={"leader_epochs": LEADER_EPOCH}, parts={"facts": RowCodec(PartitionFacts)}
        ),
        "boundary": _SNAPSHOT,
        "segment": _SEGMENT,
    },
    without=("deltas",),
)


def fact_batches(facts: Iterable[Fact], *, size: int = 4096) -> Iterator[pa.RecordBatch]:
    """Yield batches of PARTITIONS; each part of a state comes alone."""
    waiting: list[Fact] = []
    for each in facts:
        if each.deltas is not None:
            yield _state(each, each.deltas)
            continue
        waiting.append(each)
        if len(waiting) == size:
            yield _FACT_ROWS.batch(waiting, PARTITIONS)
            waiting = []
    if waiting:
        yield _FACT_ROWS.batch(waiting, PARTITIONS)


def _state(fact: Fact, deltas: np.ndarray) -> pa.RecordBatch:
    state = pa.StructArray.from_arrays([to_lists([deltas])], fields=list(PARTITIONS.field("state").type))
    without = _FACT_ROWS.batch([fact], PARTITIONS)
    columns = [state if name == "state" else without[name] for name in PARTITIONS.names]
    return pa.RecordBatch.from_arrays(columns, schema=PARTITIONS)


def read_facts(batch: pa.RecordBatch) -> list[Fact]:
    """Return rows of PARTITIONS, of which some structs may be left out."""
    facts = list(_FACT_ROWS.read([batch.select([name for name in batch.schema.names if name != "state"])]))
    if "state" not in batch.schema.names:
        return facts
    (deltas,) = columns_of(batch["state"]).columns
    pairs = zip(facts, from_lists(deltas), strict=True)
    return [replace(fact, deltas=each) if fact.kind is FactKind.STATE else fact for fact, each in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class StoredResults:
    """Results of the newest replay of one partition.

    Attributes:
        replayed: None where no replay is among the facts.
        state: DELTA_DTYPE, the state to start from.
        snapshots, segments: by offset, ascending.
    """

    log_dir: str
    topic: str
    partition: int
    replayed: StoredReplay | None
    state: np.ndarray
    snapshots: dict[int, SnapshotAt]
    segments: dict[int, SegmentFacts]

    @classmethod
    def of(cls, facts: Sequence[Fact]) -> StoredResults:
        """Return facts of one partition, at least one, by their kinds."""
        first, by_place = facts[0], sorted(facts, key=lambda each: (each.offset, each.part))
        return cls(
            *(first.log_dir, first.topic, first.partition),
            next((each.replayed for each in facts if each.replayed is not None), None),
            np.concatenate([NO_DELTAS, *(each.deltas for each in by_place if each.deltas is not None)]),
            {each.offset: each.boundary for each in by_place if each.boundary is not None},
            {each.offset: each.segment for each in by_place if each.segment is not None},
        )


def newest_results(facts: pa.Table) -> Iterator[StoredResults]:
    """Yield the results of the newest replay of each partition; of one that is gone they are without a replay."""
    key = list(PARTITION_KEY)
    # Numbers of rows are joined and not the rows: Arrow joins no lists.
    numbered = facts.select([*key, "run"]).append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    newest = facts.group_by(key).aggregate([("run", "max")])
    joined = numbered.join(newest, keys=key, join_type="inner")
    kept = joined.filter(pc.equal(joined["run"], joined["run_max"]))
    ordered = facts.take(kept.sort_by([(name, "ascending") for name in (*key, "number")])["number"])
    rows = (fact for batch in ordered.to_batches(max_chunksize=8192) for fact in read_facts(batch))
    for _, group in groupby(rows, key=lambda fact: (fact.log_dir, fact.topic, fact.partition)):
        yield StoredResults.of(list(group))
