"""The objects of a simulation: the origin of the replica's snapshot, the next writes, and the answers."""

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
    """The origin of the snapshot that the replica starts from."""

    BROKER = "broker"  # the newest snapshot file that a broker can load; the whole log if there is none
    OLDER = "older"  # the second newest file that a broker can load
    OURS = "ours"  # the snapshot that `tiersnap repair` would write at the offset
    EMPTY = "empty"  # a snapshot without producers, which KIP-952 considered
    ANOTHER = "another"  # the newest file of another replica's directory

    @property
    def is_file(self) -> bool:
        """Return whether the snapshot is an existing file."""
        return self not in (SnapshotOrigin.OURS, SnapshotOrigin.EMPTY)


class Write(StrEnum):
    """A kind of write that a producer may send after the leader's last acknowledgement."""

    NEXT = "NEXT"  # the next batch in sequence
    RETRY_OF_LAST = "RETRY_OF_LAST"  # the last batch again, byte for byte
    RETRY_OF_OLDER = "RETRY_OF_OLDER"  # one of the four previous batches again
    RETRY_BEFORE_BUMP = "RETRY_BEFORE_BUMP"  # a batch of an earlier epoch, sent before a marker or a bump
    AFTER_GAP = "AFTER_GAP"  # a batch whose previous batch was lost
    ZOMBIE_EPOCH = "ZOMBIE_EPOCH"  # the first batch of a fenced instance, whose epoch is lower by one
    RESET_TO_ZERO = "RESET_TO_ZERO"  # sequence 0 in the same epoch: a restart of clients before 2.5
    BUMPED_EPOCH = "BUMPED_EPOCH"  # sequence 0 in the next epoch: a restart of clients since 2.5

    @property
    def is_retry(self) -> bool:
        """Return whether the log already has the records of the write."""
        return self in (Write.RETRY_OF_LAST, Write.RETRY_OF_OLDER, Write.RETRY_BEFORE_BUMP)

    def coordinator_says(self, *, is_ongoing: bool) -> CheckResult:
        """Return the coordinator's answer to a broker that verifies the transaction before the append (KIP-890).

        Args:
            is_ongoing: whether the producer's transaction is open on the leader and in the coordinator.
        """
        if self in (Write.ZOMBIE_EPOCH, Write.RETRY_BEFORE_BUMP):
            return CheckResult.FENCED
        if self.is_retry and not is_ongoing:
            return CheckResult.PARTITION_MISSING
        return CheckResult.VERIFIED


@dataclass(frozen=True, slots=True)
class ReplicaDisagreement:
    """The difference between snapshots of two replicas, at the newest offset at which their snapshots differ."""

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
class LostProducers:
    """The number of active producers that a replica lost.

    Attributes:
        known: number of active producers that the replica has.
        living: number of all active producers of the partition.
    """

    known: Annotated[int, Meta(ge=0)]
    living: Annotated[int, Meta(ge=0)]
    meets: Annotated[str, Meta(description="the answers that producers would get if this replica became leader now")]

    @property
    def count(self) -> int:
        """Return the number of lost producers."""
        return self.living - self.known

    def says(self, name: str) -> str:
        """Return a sentence about the partition `name`."""
        return f"{name} has only {self.known} of {count_of(self.living, 'active producer')}. {self.meets}"


@dataclass(frozen=True, slots=True)
class WriteAnswers:
    """The answers of the leader and of the replica to one write."""

    write: Write
    transactional: bool
    known: bool  # whether the replica has the producer
    leader_answer: Answer
    replica_answer: Answer
    doubles: bool  # whether the replica appends records that the log already has

    @property
    def differs(self) -> bool:
        """Return whether leader and replica answer differently."""
        return self.leader_answer is not self.replica_answer

    @property
    def lets_in(self) -> bool:
        """Return whether the replica appends a write that the leader would refuse."""
        return lets_in(self.leader_answer, self.replica_answer)

    @property
    def refuses(self) -> bool:
        """Return whether the replica refuses a write that the leader would append."""
        return lets_in(self.replica_answer, self.leader_answer)

    @property
    def hides_loss(self) -> bool:
        """Return whether the replica, unlike the leader, appends a batch whose predecessor is lost."""
        return self.write is Write.AFTER_GAP and self.lets_in


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The answers to writes of one kind, and the reaction of clients."""

    answers: WriteAnswers
    writes: int  # number of writes: one per producer, except for RETRY_OF_OLDER and RETRY_BEFORE_BUMP
    example: int  # producer id of one of the writes
    brokers: str
    clients: str
    reaction: Reaction | None  # None if no client receives the answer
    severity: Severity | None
    next_step: str | None
    may_double_later: bool  # whether the client may next send records that the log already has

    @property
    def effect(self) -> str:
        """Return the damage that clients do not notice, or the reaction of the client if there is no such damage."""
        if self.answers.doubles:
            return "duplicate, unnoticed"
        if self.answers.hides_loss:
            return "loss, unnoticed"
        if self.reaction is None:
            return ""
        return str(self.reaction)


@dataclass(frozen=True, slots=True)
class DifferingWrite:
    """A producer, and one of its writes, which the replica and the leader answer differently."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    answers: WriteAnswers


@dataclass(frozen=True, slots=True)
class AnsweringReplica:
    """A replica of a partition, with the origin and the snapshot offset of its snapshot."""

    log_dir: str
    partition: str
    origin: SnapshotOrigin
    at: int


@dataclass(frozen=True, slots=True)
class SimulatedWrite:
    """A row of `simulate`: the answers to writes of one kind."""

    replica: AnsweringReplica
    outcome: WriteOutcome

    @property
    def effect(self) -> str:
        """Return the text of the column `effect`."""
        return self.outcome.effect


@dataclass(frozen=True, slots=True)
class SimulatedProducer:
    """A row of `simulate --producers`: the answers to one write of one producer."""

    replica: AnsweringReplica
    write: DifferingWrite


@dataclass(frozen=True, slots=True)
class FleetWrite:
    """The answers to writes of one kind, and the number of partitions with such writes."""

    outcome: WriteOutcome
    partitions: int

    @property
    def effect(self) -> str:
        """Return the text of the column `effect`."""
        return self.outcome.effect
