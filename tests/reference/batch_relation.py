"""What a producer's batch says against the one before it: the rules of an audit, for one pair.

Sequences are compared in a circle of 2^31: a gap is a step of less than half of it, a backward step any other.
Compaction keeps a producer's newest batch alone, so that gaps are normal where it ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.producer_entry import LARGEST_SEQUENCE, next_sequence

_SEQUENCES = LARGEST_SEQUENCE + 1


class Relation(StrEnum):
    """How a batch follows the one before it of the same producer."""

    OK = "OK"
    DUPLICATE_EXACT = "DUPLICATE_EXACT"
    DUPLICATE_PARTIAL = "DUPLICATE_PARTIAL"
    SEQUENCE_RESET = "SEQ_RESET_SAME_EPOCH"
    GAP = "GAP"
    COMPACTION_GAP = "COMPACTION_GAP"
    BACKWARD = "BACKWARD"
    EPOCH_BUMP = "EPOCH_BUMP"
    BUMP_NONZERO = "BUMP_NONZERO"
    EPOCH_REGRESSION = "EPOCH_REGRESSION"
    FIRST_SEEN = "FIRST_SEEN"
    FIRST_SEEN_LATER_EPOCH = "FIRST_SEEN_SEQ0_EPOCH>0"
    FRONT_TRUNCATED = "FRONT_TRUNCATED"
    FIRST_WRITE_LOST = "FIRST_WRITE_LOST"


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A data batch of one producer in a log; sequences inclusive."""

    producer_epoch: int
    first_sequence: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A relation and its distance in sequences: how many are missing, or how far back it goes; 0 elsewhere."""

    relation: Relation
    distance: int = 0


def relation(
    batch: SeenBatch, earlier: tuple[SeenBatch, ...], *, log_start_offset: int = 0, is_compacted: bool = False
) -> Judged:
    """Judge a batch.

    Args:
        earlier: batches of the same producer at lower offsets, ascending; the last one is the one before.
        log_start_offset: of the partition; above 0 the front of the log is gone.
    """
    if not earlier:
        return Judged(_first_seen(batch, log_start_offset, is_compacted))
    before = earlier[-1]
    if batch.producer_epoch != before.producer_epoch:
        return Judged(_other_epoch(batch, before))
    same_epoch = [each for each in earlier if each.producer_epoch == batch.producer_epoch]
    distance = (batch.first_sequence - next_sequence(before.last_sequence)) % _SEQUENCES
    if distance == 0:
        return Judged(Relation.OK)
    if batch in same_epoch:
        return Judged(Relation.DUPLICATE_EXACT, _SEQUENCES - distance)
    if any(_overlap(batch, each) for each in same_epoch):
        return Judged(Relation.DUPLICATE_PARTIAL, _SEQUENCES - distance)
    if batch.first_sequence == 0:
        return Judged(Relation.SEQUENCE_RESET)
    if distance < _SEQUENCES // 2:
        return Judged(Relation.COMPACTION_GAP if is_compacted else Relation.GAP, distance)
    return Judged(Relation.BACKWARD, _SEQUENCES - distance)


def _first_seen(batch: SeenBatch, log_start_offset: int, is_compacted: bool) -> Relation:
    if batch.first_sequence == 0:
        return Relation.FIRST_SEEN_LATER_EPOCH if batch.producer_epoch > 0 else Relation.FIRST_SEEN
    return Relation.FRONT_TRUNCATED if log_start_offset > 0 or is_compacted else Relation.FIRST_WRITE_LOST


def _other_epoch(batch: SeenBatch, before: SeenBatch) -> Relation:
    if batch.producer_epoch < before.producer_epoch:
        return Relation.EPOCH_REGRESSION
    return Relation.EPOCH_BUMP if batch.first_sequence == 0 else Relation.BUMP_NONZERO


def _overlap(batch: SeenBatch, other: SeenBatch) -> bool:
    """Whether two ranges of sequences, each of which may wrap, share one."""
    begins_inside = (batch.first_sequence - other.first_sequence) % _SEQUENCES <= _length(other)
    return begins_inside or (other.first_sequence - batch.first_sequence) % _SEQUENCES <= _length(batch)


def _length(batch: SeenBatch) -> int:
    return (batch.last_sequence - batch.first_sequence) % _SEQUENCES
