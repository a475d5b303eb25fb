"""The rows of a simulation: answers of all releases and reactions of all clients; equal ones are one row.

A row is (kind of write, transactional or not) x (brokers that answer alike) x (clients that react alike). Follows
Kafka's names; releases are ranges such as `2.5-4.4`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.eras import (
    BROKER_ERAS,
    CLIENT_ERAS,
    BrokerEra,
    ClientEra,
    Reaction,
    releases_of,
)
from tiersnap.snapshot.exactly_once.models.produce_reaction import SentBatch, react
from tiersnap.snapshot.exactly_once.simulate.kinds import DifferingWrite, Write, WriteAnswers, WriteOutcome
from tiersnap.snapshot.exactly_once.simulate.replica_state import ReplicaState
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, WriteClass
from tiersnap.snapshot.units import count_of


def outcomes(
    classes: Iterable[WriteClass],
    producer_ids: Sequence[int],
    brokers: Sequence[BrokerEra],
    clients: Sequence[ClientEra],
    given: Circumstances,
) -> list[WriteOutcome]:
    """Return the classes as rows, equal ones as one; those that double first, then those that differ.

    Args:
        producer_ids: of the leader's entries, to which the members of the classes are indexes.
    """
    found: dict[WriteOutcome, WriteOutcome] = {}
    first: dict[str, tuple[int, ...]] = {}  # by releases of brokers, the first of them
    for write_class in classes:
        for era, outcome in _of_class(write_class, int(producer_ids[write_class.members[0]]), brokers, clients, given):
            key = replace(outcome, writes=0, example=0)
            before = found.get(key)
            found[key] = outcome if before is None else replace(before, writes=before.writes + outcome.writes)
            first[outcome.brokers] = era.first
    order = list(Write)
    return sorted(
        found.values(),
        key=lambda each: (
            *(not each.answers.doubles, not each.answers.differs),
            *(order.index(each.answers.write), first[each.brokers]),
        ),
    )


def differing_writes(classes: Iterable[WriteClass], leader: ReplicaState, era: BrokerEra) -> Iterator[DifferingWrite]:
    """Yield each producer and write that a replica of the era answers otherwise than the leader."""
    for each in classes:
        answers = _answers(each, era, each.leader_answers[era.name], each.replica_answers[era.name])
        if answers.differs:
            for entry in leader.entries[each.members]:
                yield DifferingWrite(
                    int(entry["producer_id"]),
                    int(entry["producer_epoch"]),
                    int(entry["last_sequence"]),
                    int(entry["last_offset"]),
                    answers,
                )


def _answers(write_class: WriteClass, era: BrokerEra, leader: Answer, replica: Answer) -> WriteAnswers:
    kind = (write_class.write, write_class.is_transactional, write_class.is_known)
    return WriteAnswers(*kind, leader, replica, write_class.doubles(era))


def _of_class(
    write_class: WriteClass,
    example: int,
    brokers: Sequence[BrokerEra],
    clients: Sequence[ClientEra],
    given: Circumstances,
) -> Iterator[tuple[BrokerEra, WriteOutcome]]:
    """Yield outcomes, each with the first of its brokers."""
    answers = {era: (write_class.leader_answers[era.name], write_class.replica_answers[era.name]) for era in brokers}
    for (leader, replica), alike in _grouped(answers).items():
        reactions = {era: _reaction(replica, era, write_class, given) for era in clients}
        for reaction, reacting in _grouped(reactions).items():
            yield (
                alike[0],
                WriteOutcome(
                    _answers(write_class, alike[0], leader, replica),
                    int(write_class.members.size),
                    example,
                    releases_of(alike, BROKER_ERAS),
                    releases_of(reacting, CLIENT_ERAS),
                    reaction,
                    None if reaction is None else reaction.severity,
                    None if reaction is None else reaction.next_step,
                    reaction is not None and write_class.write.is_retry and reaction.may_duplicate,
                ),
            )


def _reaction(answer: Answer, era: ClientEra, write_class: WriteClass, given: Circumstances) -> Reaction | None:
    batch = SentBatch(
        producer_epoch=write_class.producer_epoch,
        log_start_offset=given.log_start_offset,
        last_acked_offset=write_class.last_acked_offset,
        is_next=write_class.write is not Write.AFTER_GAP,
    )
    return react(answer, era, batch, transactional=write_class.is_transactional).reaction


K = TypeVar("K")
V = TypeVar("V", bound=Hashable)


def _grouped(values: Mapping[K, V]) -> dict[V, list[K]]:
    """Group keys by value, in order."""
    groups: dict[V, list[K]] = {}
    for key, value in values.items():
        groups.setdefault(value, []).append(key)
    return groups


@dataclass(slots=True)
class Tally:
    """Counts over partitions."""

    producers: int = 0  # alive on the leader, in each partition
    unknown: int = 0  # of these, not known to the replica
    doubled: int = 0  # last batches that would be appended a second time if they were sent again
    doubled_older: int = 0  # likewise of the batches before them
    refused: int = 0  # next batches in sequence that would be refused, and the leader would take
    unrecognized: int = 0  # batches sent again that would be refused, and the leader would acknowledge once more
    hidden: int = 0  # batches after a gap that would be taken, and the leader would refuse: nobody notices the loss
    zombies: int = 0  # first writes of fenced instances that would be taken, and the leader would refuse

    def add(self, classes: Iterable[WriteClass], era: BrokerEra) -> None:
        """Count the classes of one partition, by the answers of brokers of one era."""
        for each in classes:
            count = int(each.members.size)
            leader, replica = each.leader_answers[era.name], each.replica_answers[era.name]
            if each.write.is_retry and leader is Answer.DUPLICATE_ACK and replica.is_error:
                self.unrecognized += count
            if each.write is Write.NEXT:
                self.producers += count
                self.unknown += 0 if each.is_known else count
                self.refused += count if leader.appends and not replica.appends else 0
            elif each.write is Write.RETRY_OF_LAST:
                self.doubled += count if each.doubles(era) else 0
            elif each.write.is_retry:
                self.doubled_older += count if each.doubles(era) else 0
            elif each.write is Write.AFTER_GAP:
                self.hidden += count if replica.appends and not leader.appends else 0
            elif each.write is Write.ZOMBIE_EPOCH:
                self.zombies += count if replica.appends and not leader.appends else 0

    def sentence(self, era: BrokerEra) -> str:
        """Return the answers that producers would get if this replica became leader now; `era` gave them."""
        if not self.producers:
            return "If this replica became leader now, nobody would notice: no producer is alive."
        parts = []
        if self.unknown:
            parts.append(f"it would not know {self.unknown} of {count_of(self.producers, 'producer')}")
        else:
            parts.append(f"it would know all of {count_of(self.producers, 'producer')}")
        if self.doubled:
            parts.append(f"append the last batch of {self.doubled} a second time if it was sent again")
        if self.doubled_older:
            parts.append(f"append {count_of(self.doubled_older, 'older batch', 'older batches')} likewise")
        if not (self.doubled or self.doubled_older):
            parts.append("append nothing twice")
        if self.refused:
            parts.append(f"refuse the next batch of {self.refused}")
        if self.unrecognized:
            parts.append(
                f"refuse {count_of(self.unrecognized, 'batch', 'batches')} that the leader would acknowledge again"
            )
        if self.hidden:
            parts.append(f"take a batch after a lost one from {self.hidden}, which hides the loss")
        if self.zombies:
            parts.append(f"let {count_of(self.zombies, 'fenced instance')} write")
        *most, last = parts
        return f"If this replica became leader now, {', '.join(most)}, and {last} (brokers {era.releases})."


# The counts of a Tally, which add up over partitions.
TALLIED = tuple(each.name for each in fields(Tally))
