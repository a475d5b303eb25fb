"""The rows of a simulation: the answers of all broker releases and the reactions of all client releases.

There is a row for each combination of three: kind of write, transactional or not; brokers with the same answer; clients
with the same reaction. Releases are ranges such as `2.5-4.4`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
    """Return a row for each distinct outcome.

    Rows with duplicates come first, then other rows in which leader and replica answer differently.

    Args:
        producer_ids: producer ids of the leader's entries. `members` of a class are indexes into this list.
    """
    found: dict[WriteOutcome, WriteOutcome] = {}
    first: dict[str, tuple[int, ...]] = {}  # first release of each range of broker releases
    for write_class in classes:
        for era, outcome in _of_class(write_class, int(producer_ids[write_class.members[0]]), brokers, clients, given):
            key = replace(outcome, writes=0, example=0)
            if key in found:
                outcome = replace(found[key], writes=found[key].writes + outcome.writes)
            found[key] = outcome
            first[outcome.brokers] = era.first
    order = list(Write)

    def rank(each: WriteOutcome) -> tuple[bool, bool, int, tuple[int, ...]]:
        answers = each.answers
        return not answers.doubles, not answers.differs, order.index(answers.write), first[each.brokers]

    return sorted(found.values(), key=rank)


def differing_writes(classes: Iterable[WriteClass], leader: ReplicaState, era: BrokerEra) -> Iterator[DifferingWrite]:
    """Yield each producer and write that the replica and the leader answer differently in the era."""
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
    """Yield each outcome of a class with the first broker era that gives the outcome."""
    answers = {era: (write_class.leader_answers[era.name], write_class.replica_answers[era.name]) for era in brokers}
    for (leader, replica), alike in _grouped(answers).items():
        reactions = {era: _reaction(replica, era, write_class, given) for era in clients}
        for reaction, reacting in _grouped(reactions).items():
            outcome = WriteOutcome(
                answers=_answers(write_class, alike[0], leader, replica),
                writes=int(write_class.members.size),
                example=example,
                brokers=releases_of(alike, BROKER_ERAS),
                clients=releases_of(reacting, CLIENT_ERAS),
                reaction=reaction,
                severity=None,
                next_step=None,
                may_double_later=False,
            )
            if reaction is not None:
                outcome = _with_reaction(outcome, reaction)
            yield alike[0], outcome


def _with_reaction(outcome: WriteOutcome, reaction: Reaction) -> WriteOutcome:
    """Return the outcome with the consequences of the client's reaction."""
    return replace(
        outcome,
        severity=reaction.severity,
        next_step=reaction.next_step,
        may_double_later=outcome.answers.write.is_retry and reaction.may_duplicate,
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
    """Return the keys by value, in the order of the mapping."""
    groups: dict[V, list[K]] = {}
    for key, value in values.items():
        groups.setdefault(value, []).append(key)
    return groups


@dataclass(slots=True)
class Tally:
    """Sums over partitions."""

    producers: int = 0  # active producers of the leader; each partition counts separately
    unknown: int = 0  # active producers that the replica does not have
    doubled: int = 0  # retries of the last batch that the replica would append a second time
    doubled_older: int = 0  # retries of earlier batches that the replica would append a second time
    refused: int = 0  # next batches that the replica would refuse and the leader would append
    unrecognized: int = 0  # retries that the replica would refuse and the leader would acknowledge again
    hidden: int = 0  # batches after a lost batch that the replica would append, which hides the loss
    zombies: int = 0  # first writes of fenced instances that the replica would append and the leader would refuse

    def add(self, classes: Iterable[WriteClass], era: BrokerEra) -> None:
        """Count the writes in the classes of one partition, by the answers that brokers of `era` give."""
        for each in classes:
            answers = _answers(each, era, each.leader_answers[era.name], each.replica_answers[era.name])
            for name, counts in _COUNTED.items():
                if counts(answers):
                    setattr(self, name, getattr(self, name) + int(each.members.size))

    def sentence(self, era: BrokerEra) -> str:
        """Return a sentence about the answers that producers would get from this replica, with brokers of `era`."""
        if not self.producers:
            return "If this replica became leader now, no producer would be affected: none is active."
        knows = f"lack {self.unknown} of" if self.unknown else "lack none of"
        parts = [f"it would {knows} {count_of(self.producers, 'producer')}", *self._appends(), *self._refuses()]
        if self.hidden:
            parts.append(
                f"accept a later batch of {count_of(self.hidden, 'producer')} although a batch before it was "
                "lost, which hides the loss"
            )
        if self.zombies:
            parts.append(f"let {count_of(self.zombies, 'fenced producer instance')} write")
        *most, last = parts
        return f"If this replica became leader now, {', '.join(most)}, and {last} (brokers {era.releases})."

    def _appends(self) -> Iterator[str]:
        if self.doubled:
            yield f"write the last batch of {count_of(self.doubled, 'producer')} twice if the producers sent it again"
        if self.doubled_older:
            older = count_of(self.doubled_older, "older batch", "older batches")
            yield f"write {older} twice if the producers sent them again"
        if not (self.doubled or self.doubled_older):
            yield "append nothing twice"

    def _refuses(self) -> Iterator[str]:
        if self.refused:
            yield f"refuse the next batch of {count_of(self.refused, 'producer')}"
        if self.unrecognized:
            yield (
                f"refuse {count_of(self.unrecognized, 'batch', 'batches')} that the leader would acknowledge as "
                "duplicates"
            )


# For each field of Tally: whether an answer is counted in it.
_COUNTED: dict[str, Callable[[WriteAnswers], bool]] = {
    "producers": lambda each: each.write is Write.NEXT,
    "unknown": lambda each: each.write is Write.NEXT and not each.known,
    "doubled": lambda each: each.write is Write.RETRY_OF_LAST and each.doubles,
    "doubled_older": lambda each: each.write is not Write.RETRY_OF_LAST and each.doubles,
    "refused": lambda each: each.write is Write.NEXT and each.refuses,
    "unrecognized": lambda each: (
        each.write.is_retry and each.leader_answer is Answer.DUPLICATE_ACK and each.replica_answer.is_error
    ),
    "hidden": lambda each: each.hides_loss,
    "zombies": lambda each: each.write is Write.ZOMBIE_EPOCH and each.lets_in,
}
# The fields of Tally. Their values are summed over partitions.
TALLIED = tuple(each.name for each in fields(Tally))
