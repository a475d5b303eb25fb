"""JSON of the commands that look into files and at producers: dump, simulate, transactions, producers, explain.

Times named `…timestamp` are ms since the epoch, and `…time` is the same in ISO 8601, UTC, null where there is none.
Durations are named `…_ms`. -1 stands for what is not there, as in Kafka.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from tiersnap.jobs.contracts.envelope import ErrorObject, FindingObject
from tiersnap.snapshot.dump.files import FileKind
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.client_eras import Reaction, Severity
from tiersnap.snapshot.exactly_once.simulate.next_writes import Write
from tiersnap.snapshot.exactly_once.simulate.replica import Origin
from tiersnap.snapshot.exactly_once.transactions.hanging import TransactionVerdict


class DumpedFile(TypedDict):
    """A file of `dump`; the members of an entry depend on the kind of the file."""

    file: str
    kind: FileKind
    offset: int | None
    epoch: int | None
    entries: list[dict[str, object]]
    damage: Annotated[list[FindingObject | ErrorObject], "the first few"]
    further_damage: int
    notes: list[str]


# `from` is a word of Python.
_Replica = TypedDict("_Replica", {"log_dir": str, "partition": str, "from": Origin, "at": int})


class SimulatedWrite(_Replica):
    """What producers of one kind would meet (`simulate`)."""

    write: Write
    transactional: bool
    writes: int
    example: Annotated[int, "producer id"]
    known: bool
    brokers: str
    leader_answer: Answer
    replica_answer: Answer
    doubles: bool
    clients: str
    reaction: Reaction | None
    severity: Severity | None
    next_step: str | None
    may_double_later: bool


class SimulatedProducer(_Replica):
    """What one producer would meet (`simulate --producers`)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    write: Write
    transactional: bool
    known: bool
    leader_answer: Answer
    replica_answer: Answer
    doubles: bool


class ListedTransaction(TypedDict):
    """A transactional id of `transactions list` and `describe`, as its coordinator knows it."""

    transactional_id: str
    coordinator: str
    producer_id: int
    producer_epoch: int
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_timestamp: int | None
    transaction_start_time: str | None
    transaction_duration_ms: int | None
    topic_partitions: list[str]
    last_update_timestamp: int
    last_update_time: str | None
    previous_producer_id: int
    next_producer_id: int
    client_transaction_version: int
    next_producer_epoch: int
    unknown_tags: Annotated[dict[str, str], "hex by tag"]
    value_version: int
    offset: int
    timestamp: int
    time: str | None


class OpenTransaction(TypedDict):
    """An open transaction of `transactions find-hanging`."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_start_offset: int
    last_timestamp: int
    last_time: str | None
    duration_minutes: int
    is_late: bool
    verdict: TransactionVerdict
    reason: str
    transactional_id: str | None
    transaction_state: str | None
    coordinator_producer_epoch: int | None
    blocked_segment_count: int
    blocked_segments: Annotated[list[int], "base offsets"]
    blocked_bytes: int
    abort_command: str | None
    abort_command_before_3_0: str | None
    terminate_command: Annotated[str | None, "aborts a transaction in two phases over its application's head"]


class ListedProducer(TypedDict):
    """A producer of `producers`, as DescribeProducers answers."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    last_time: str | None
    transaction_start_offset: int | None
    last_offset: int


class ExplainedRow(TypedDict):
    """Who answers or does what in which releases (`explain WORD`)."""

    who: Annotated[str, "broker, coordinator, client or application"]
    releases: str
    changed_by: Annotated[str, "KIPs or issues that made it so in the first of the releases"]
    transaction_version: int | None
    request: str
    situation: Annotated[str | None, "name that `explain` takes"]
    when: str
    answer: Answer | None
    does: str
    severity: Severity | None


class ExplainableName(TypedDict):
    """What `explain` can be asked about (`explain` alone)."""

    name: str
    request: str
    when: str
