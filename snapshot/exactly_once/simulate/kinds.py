"""The objects of a simulation: the snapshot that a leader begins with, the next write, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.exactly_once.models.answers import Answer, lets_in
from tiersnap.snapshot.exactly_once.models.eras import Reaction, Severity
from tiersnap.snapshot.exactly_once.models.verification import CheckResult
from tiersnap.snapshot.units import count_of


class SnapshotOrigin(StrEnum):
    """The origin of the replica's snapshot."""

    BROKER = "broker"  # the newest snapshot file that a broker can load; without one, the whole log
    OLDER = "older"  # the second newest file that a broker can load
    OURS = "ours"  # the snapshot that `tiersnap repair` would write at the offset
    EMPTY = "empty"  # a snapshot without producers, as KIP-952 considered uploading
    ANOTHER = "another"  # the newest file of another replica's directory

    @property
    def is_file(self) -> bool:
        """Return whether the snapshot is a file that exists."""
        return self not in (SnapshotOrigin.OURS, SnapshotOrigin.EMPTY)


class Write(StrEnum):
    """The kinds of writes that a producer may send after the leader's last acknowledgement."""

    NEXT = "NEXT"  # the next batch in sequence
    RETRY_OF_LAST = "RETRY_OF_LAST"  # the last batch once more, byte for byte
    RETRY_OF_OLDER = "RETRY_OF_OLDER"  # one of the four before it once more
    RETRY_BEFORE_BUMP = "RETRY_BEFORE_BUMP"  # a batch of an earlier epoch, sent before a marker or a bump
    AFTER_GAP = "AFTER_GAP"  # a batch after one that got lost
    ZOMBIE_EPOCH = "ZOMBIE_EPOCH"  # a first batch of a fenced instance, one epoch below
    RESET_TO_ZERO = "RESET_TO_ZERO"  # sequence 0 in the same epoch, as clients before 2.5 begin again
    BUMPED_EPOCH = "BUMPED_EPOCH"  # sequence 0 in the next epoch, as clients since 2.5 begin again

    @property
    def is_retry(self) -> bool:
        """Return whether its records are in the log already."""
        return self in (Write.RETRY_OF_LAST, Write.RETRY_OF_OLDER, Write.RETRY_BEFORE_BUMP)

    def coordinator_says(self, *, is_ongoing: bool) -> CheckResult:
        """Return the coordinator's answer when the broker verifies the transaction before the append.

        Args:
            is_ongoing: the producer's transaction is open, on the leader and at the coordinator.
        """
        if self in (Write.ZOMBIE_EPOCH, Write.RETRY_BEFORE_BUMP):
            return CheckResult.FENCED
        return CheckResult.VERIFIED if is_ongoing or not self.is_retry else CheckResult.PARTITION_MISSING


@dataclass(frozen=True, slots=True)
class ReplicaDisagreement:
    """The difference between the snapshots of two replicas, at the newest offset at which they differ."""

    replica: str
    partition: str
    compared: int
    offset: int | None
    only_here: int
    only_there: int
    differing: int
    log_start_offset: int
    log_start_offset_there: int
    log_start_goes_back: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The living producers that a replica lost, counted.

    Attributes:
        known: living producers that the replica knows.
        living: all living producers.
    """

    known: Annotated[int, Meta(ge=0)]
    living: Annotated[int, Meta(ge=0)]
    meets: Annotated[str, Meta(description="the answers that producers would get if this replica led now")]

    @property
    def count(self) -> int:
        """Return the number of lost producers."""
        return self.living - self.known

    def says(self, name: str) -> str:
        """Return a sentence about the partition called `name`."""
        return f"{name} knows {self.known} of {count_of(self.living, 'living producer')}. {self.meets}"


@dataclass(frozen=True, slots=True)
class WriteAnswers:
    """The answers of the leader and of the replica to one write."""

    write: Write
    transactional: bool
    known: bool  # whether the replica knows the producer
    leader_answer: Answer
    replica_answer: Answer
    doubles: bool  # the replica appends records that are in the log already

    @property
    def differs(self) -> bool:
        """Return whether the two answers differ."""
        return self.leader_answer is not self.replica_answer

    @property
    def lets_in(self) -> bool:
        """Return whether the replica appends a write that the leader would not."""
        return lets_in(self.leader_answer, self.replica_answer)

    @property
    def refuses(self) -> bool:
        """Return whether the replica does not append a write that the leader would."""
        return lets_in(self.replica_answer, self.leader_answer)

    @property
    def hides_loss(self) -> bool:
        """Return whether the replica appends a batch after a lost one, which the leader would refuse."""
        return self.write is Write.AFTER_GAP and self.lets_in


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The answers to writes of one kind, and the reaction of clients, None if no client gets the answer."""

    answers: WriteAnswers
    writes: int  # one per producer, except for RETRY_OF_OLDER and RETRY_BEFORE_BUMP
    example: int  # producer id of one write
    brokers: str
    clients: str
    reaction: Reaction | None
    severity: Severity | None
    next_step: str | None
    may_double_later: bool  # the client may send records next that are in the log already

    @property
    def effect(self) -> str:
        """Return the unnoticed damage, or else the reaction of the client."""
        if self.answers.doubles:
            return "duplicate, unnoticed"
        if self.answers.hides_loss:
            return "loss, unnoticed"
        return "" if self.reaction is None else str(self.reaction)


@dataclass(frozen=True, slots=True)
class DifferingWrite:
    """A producer and a write to which the replica and the leader give different answers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    answers: WriteAnswers


@dataclass(frozen=True, slots=True)
class AnsweringReplica:
    """A replica of a partition that starts from a snapshot of this origin, at offset `at`."""

    log_dir: str
    partition: str
    origin: SnapshotOrigin
    at: int


@dataclass(frozen=True, slots=True)
class SimulatedWrite:
    """The answers to producers of one kind (`simulate`)."""

    replica: AnsweringReplica
    outcome: WriteOutcome

    @property
    def effect(self) -> str:
        """Return the effect in the table of writes."""
        return self.outcome.effect


@dataclass(frozen=True, slots=True)
class SimulatedProducer:
    """The answers to one producer (`simulate --producers`)."""

    replica: AnsweringReplica
    write: DifferingWrite


@dataclass(frozen=True, slots=True)
class FleetWrite:
    """The answers to producers of one kind, and the number of partitions that have such producers."""

    outcome: WriteOutcome
    partitions: int

    @property
    def effect(self) -> str:
        """Return the effect in the table of writes."""
        return self.outcome.effect
