"""Questions to a transaction coordinator, as lines for CoordinatorOracle.java, and what the models answer to them.

init - TIMEOUT, init ID EPOCH TIMEOUT    InitProducerId of a new instance, of one that names itself
    init - TIMEOUT true false               with KIP-939's flags: in two phases, and what was prepared is to be kept
end COMMIT|ABORT ID EPOCH VERSION        EndTxn, of a client that speaks this version of transactions
add ID EPOCH                             AddPartitionsToTxn
fence                                    the step in memory before an ongoing transaction is aborted
reload                                   the record, read by another coordinator
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.reference.coordinator_cases import NEW_PRODUCER_ID, init_cases
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    LARGEST_EPOCH,
    CoordinatorEra,
    InitProducerIdRequest,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    after_failover,
    check_request,
)
from tiersnap.snapshot.exactly_once.models.end_transaction import (
    add_partitions,
    completed,
    end_transaction,
    fence_abort,
)
from tiersnap.snapshot.exactly_once.models.init_producer_id import init_producer_id

_RARE = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
_USUAL = tuple(state for state in TransactionState if state not in _RARE)
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass(frozen=True)
class Question:
    """One question; `metadata` is None where the transactional id is unknown."""

    server_version: int
    metadata: TransactionMetadata | None
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        """As CoordinatorOracle.java reads it."""
        return f"{self.server_version}|{_metadata_text(self.metadata)}|{' '.join(self.words)}"

    def answered(self, era: CoordinatorEra) -> str:
        """The model's answer, as CoordinatorOracle.java prints Kafka's."""
        return _ANSWERS[self.words[0]](self.metadata, self.words[1:], era)

    def comparable(self, answer: str) -> str:
        """Kafka's answer without what the models do not tell.

        That is the record of partitions that were added, and an identity from EndTxn of version 1.
        """
        error, identity, records = answer.split("|")
        ends_version_1 = self.words[0] == "end" and self.words[-1] == "1"
        return "|".join((error, "" if ends_version_1 else identity, "" if self.words[0] == "add" else records))


def case_questions(transaction_version: int) -> Iterator[Question]:
    """The cases of coordinator_cases.txt as questions."""
    for case in init_cases():
        identity = ("-",) if case.supplied is None else tuple(map(str, case.supplied))
        yield Question(transaction_version, case.metadata, ("init", *identity, "60000"))


def two_phase_questions() -> Iterator[Question]:
    """InitProducerId with KIP-939's flags (since 4.1), to a broker that does not allow two phases."""
    at_rest = TransactionMetadata(10, 7, TransactionState.COMPLETE_COMMIT)
    for flags in (("true", "false"), ("false", "true"), ("true", "true"), ("false", "false")):
        for timeout in ("60000", "0"):
            yield Question(2, at_rest, ("init", "-", timeout, *flags))


def rotated_questions(*, transaction_version: int) -> Iterator[Question]:
    """EndTxn again, from the producer id that the coordinator has replaced at its last epoch."""
    for state in (TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT):
        for epoch in (0, 1):
            metadata = TransactionMetadata(10, epoch, state, last_producer_epoch=32766, previous_producer_id=9)
            for supplied in ("32766", "32765"):
                yield Question(
                    transaction_version, metadata, ("end", "COMMIT", "9", supplied, str(transaction_version))
                )


def random_questions(seed: int, count: int, *, transaction_version: int) -> Iterator[Question]:
    """Questions about any state, many of them at the last epochs; server and clients speak up to that version."""
    random = Random(seed)
    for _ in range(count):
        metadata = _random_metadata(random)
        epoch = max(0, metadata.producer_epoch)
        near = (epoch, max(0, epoch - 1), min(epoch + 1, LARGEST_EPOCH), max(0, metadata.last_producer_epoch), 32766, 0)
        identity = str(random.choice((10, 10, 10, 9, 99))), str(random.choice(near))
        words: tuple[str, ...] = ("init", *identity, "60000")
        match random.randrange(10):
            case 0 | 1:
                words = ("init", "-", str(random.choice((60_000, 60_000, 0, 900_001))))
            case 2 | 3 | 4 | 5:
                words = (
                    "end",
                    random.choice(("COMMIT", "ABORT")),
                    *identity,
                    str(random.randint(1, transaction_version)),
                )
            case 6:
                words = ("add", *identity)
            case 7 if metadata.state is TransactionState.ONGOING and not metadata.is_pending:
                words = ("fence",)
            case 8 if metadata.state in _USUAL and metadata.producer_epoch >= 0:
                words = ("reload",)
        yield Question(transaction_version, metadata, words)


def _random_metadata(random: Random) -> TransactionMetadata:
    state = random.choice(_RARE if random.random() < 0.02 else (*_USUAL, TransactionState.ONGOING))
    is_fresh = state is TransactionState.EMPTY and random.random() < 0.1
    is_pending, has_failed = random.choice(((False, False),) * 8 + ((True, False), (False, True)))
    epoch = -1 if is_fresh else random.choice((0, 1, 5, 7, 7, 8, 32764, 32765, 32766, 32766, 32767))
    return TransactionMetadata(
        10,
        epoch,
        state,
        last_producer_epoch=random.choice((-1, max(-1, epoch - 1), epoch, 6)),
        previous_producer_id=random.choice((-1, 10, 10, 9)),
        next_producer_id=12 if state in _PREPARED and random.random() < 0.3 else -1,
        is_pending=is_pending,
        has_failed_fence=has_failed,
    )


def _metadata_text(metadata: TransactionMetadata | None) -> str:
    if metadata is None:
        return "-|"
    word = "pending" if metadata.is_pending else "failed" if metadata.has_failed_fence else "-"
    return f"{metadata.state}|{_numbers(metadata)} {word}"


def _numbers(metadata: TransactionMetadata) -> str:
    numbers = (metadata.producer_id, metadata.producer_epoch, metadata.last_producer_epoch)
    return " ".join(map(str, (*numbers, metadata.previous_producer_id, metadata.next_producer_id)))


def _text(answer: Answer, identity: ProducerIdAndEpoch | None = None, *records: TransactionMetadata) -> str:
    named = "" if identity is None else f"{identity.producer_id} {identity.producer_epoch}"
    return f"{answer}|{named}|{'; '.join(f'{each.state} {_numbers(each)}' for each in records)}"


def _decided(record: TransactionMetadata | None) -> tuple[TransactionMetadata, ...]:
    """The record, and behind one that decides a transaction the one that completes it."""
    if record is None:
        return ()
    return (record, completed(record)) if record.state in _PREPARED else (record,)


def _init(metadata: TransactionMetadata | None, words: tuple[str, ...], era: CoordinatorEra) -> str:
    at = 1 if words[0] == "-" else 2
    supplied = None if at == 1 else ProducerIdAndEpoch(int(words[0]), int(words[1]))
    in_two_phases, keeps = (word == "true" for word in words[at + 1 :] or ("false", "false"))
    request = InitProducerIdRequest(
        "id", int(words[at]), *(supplied or (-1, -1)), in_two_phases=in_two_phases, keep_prepared=keeps
    )
    refusal = check_request(request)
    if refusal is not None:
        return _text(refusal)
    found = init_producer_id(metadata, supplied, era, new_producer_id=NEW_PRODUCER_ID)
    return _text(found.answer, found.identity, *_decided(found.record))


def _end(metadata: TransactionMetadata | None, words: tuple[str, ...], era: CoordinatorEra) -> str:
    result, producer_id, epoch, version = words
    assert metadata is not None
    found = end_transaction(
        metadata,
        ProducerIdAndEpoch(int(producer_id), int(epoch)),
        era,
        commit=result == "COMMIT",
        transaction_version=int(version),
        new_producer_id=NEW_PRODUCER_ID,
    )
    return _text(found.answer, found.identity if version == "2" else None, *_decided(found.record))


def _add(metadata: TransactionMetadata | None, words: tuple[str, ...], era: CoordinatorEra) -> str:
    return _text(add_partitions(metadata, ProducerIdAndEpoch(*map(int, words)), era))


def _fence(metadata: TransactionMetadata | None, _words: tuple[str, ...], era: CoordinatorEra) -> str:
    assert metadata is not None
    step = fence_abort(metadata, era, new_producer_id=NEW_PRODUCER_ID).fence
    return _text(Answer.UNKNOWN_SERVER_ERROR) if step is None else _text(Answer.NONE, None, step)


def _reload(metadata: TransactionMetadata | None, _words: tuple[str, ...], era: CoordinatorEra) -> str:
    assert metadata is not None
    return _text(Answer.NONE, None, after_failover(metadata, era))


_ANSWERS = {"init": _init, "end": _end, "add": _add, "fence": _fence, "reload": _reload}
