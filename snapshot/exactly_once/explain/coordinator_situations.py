"""Situations that a transaction coordinator answers.

The transactional id of the examples has producer id 10 in epoch 7, and had epoch 6 before; a new producer id is 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiersnap.snapshot.exactly_once.explain.situations import Situation, SituationAnswer
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    TWO_PHASE_TIMEOUT_MS,
    CoordinatorEra,
    InitProducerIdRequest,
    ProducerIdAndEpoch,
    ResumeRule,
    TransactionMetadata,
    TransactionState,
    after_failover,
    check_request,
    is_timed_out,
    is_transactional_id_expired,
)
from tiersnap.snapshot.exactly_once.models.end_transaction import (
    add_partitions,
    completed,
    end_transaction,
    fence_abort,
)
from tiersnap.snapshot.exactly_once.models.init_producer_id import init_producer_id

Ask = Callable[[CoordinatorEra], SituationAnswer | None]
_DONE = TransactionMetadata(10, 7, TransactionState.COMPLETE_COMMIT, last_producer_epoch=6)
_ABORTED, _EMPTY, _ONGOING, _COMMITTING, _ABORTING = (
    replace(_DONE, state=state)
    for state in (
        TransactionState.COMPLETE_ABORT,
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    )
)
_EXHAUSTED, _LAST = 32766, 32767
_NEW_ID = 11


def _record(record: TransactionMetadata | None) -> str:
    """Say what is written."""
    if record is None:
        return "writes nothing"
    said = f"writes {record.state}, producer id {record.producer_id}, epoch {record.producer_epoch}"
    return said if record.next_producer_id < 0 else f"{said}, next producer id {record.next_producer_id}"


def _init(
    metadata: TransactionMetadata | None, supplied: tuple[int, int] | None = None, *, reloaded: bool = False
) -> Ask:
    def ask(era: CoordinatorEra) -> SituationAnswer:
        known = after_failover(metadata, era) if metadata is not None and reloaded else metadata
        named = None if supplied is None else ProducerIdAndEpoch(*supplied)
        found = init_producer_id(known, named, era, new_producer_id=_NEW_ID)
        given = "" if found.identity is None else "gives producer id {}, epoch {}; ".format(*found.identity)
        return SituationAnswer(found.answer, given + _record(found.record))

    return ask


def _request(request: InitProducerIdRequest) -> Ask:
    def ask(era: CoordinatorEra) -> SituationAnswer | None:
        names_itself = request.producer_id >= 0 and era.resume is ResumeRule.NEVER
        if names_itself or ((request.in_two_phases or request.keep_prepared) and not era.knows_two_phases):
            return None  # there are no such fields
        answer = check_request(request) or Answer.NONE
        return SituationAnswer(
            answer, "writes nothing" if answer.is_error else "gives a new producer id, epoch 0; writes nothing"
        )

    return ask


def _end(
    metadata: TransactionMetadata, epoch: int, *, commit: bool, fenced: bool = False, producer_id: int = 10
) -> Ask:
    """Ask EndTxn in the version of the era; `fenced`: the coordinator aborted the transaction before."""

    def ask(era: CoordinatorEra) -> SituationAnswer:
        known: TransactionMetadata | None = metadata
        if fenced:
            record = fence_abort(metadata, era, new_producer_id=_NEW_ID).record
            known = None if record is None else completed(record)
        if known is None:
            return SituationAnswer(Answer.UNKNOWN_SERVER_ERROR, "could not abort the transaction")
        found = end_transaction(
            known,
            ProducerIdAndEpoch(producer_id, epoch),
            era,
            commit=commit,
            transaction_version=era.transaction_version,
            new_producer_id=_NEW_ID,
        )
        return SituationAnswer(found.answer, _record(found.record))

    return ask


def _add(metadata: TransactionMetadata | None, epoch: int = 7, producer_id: int = 10) -> Ask:
    def ask(era: CoordinatorEra) -> SituationAnswer:
        answer = add_partitions(metadata, ProducerIdAndEpoch(producer_id, epoch), era)
        return SituationAnswer(answer, "writes nothing" if answer.is_error else "writes Ongoing with the partition")

    return ask


def _time_out(timeout_ms: int) -> Ask:
    """Look at the clock 30 days after a transaction began."""

    def ask(era: CoordinatorEra) -> SituationAnswer | None:
        if timeout_ms == TWO_PHASE_TIMEOUT_MS and not era.knows_two_phases:
            return None
        if not is_timed_out(start_timestamp=0, timeout_ms=timeout_ms, now=30 * 86_400_000):
            return SituationAnswer(Answer.NONE, "waits for its application to end it, however long")
        return SituationAnswer(Answer.NONE, _record(fence_abort(_ONGOING, era, new_producer_id=_NEW_ID).record))

    return ask


def _expire(_era: CoordinatorEra) -> SituationAnswer:
    week = 604_800_000
    is_gone = is_transactional_id_expired(TransactionState.COMPLETE_COMMIT, last_update=0, expiration_ms=week, now=week)
    return SituationAnswer(Answer.NONE, "forgets the transactional id" if is_gone else "keeps it")


def _of(request: str, *situations: tuple[str, str, Ask]) -> tuple[Situation, ...]:
    return tuple(Situation(name, request, when, ask) for name, when, ask in situations)


OF_COORDINATORS: tuple[Situation, ...] = (
    *_of(
        "InitProducerId",
        ("init", "a new instance begins", _init(_DONE)),
        ("init-unknown-id", "the transactional id is unknown, or has expired", _init(None, (77, 5))),
        ("init-by-name", "a client asks for the next epoch, and names its own", _init(_DONE, (10, 7))),
        ("init-again", "the request for the next epoch comes again", _init(_DONE, (10, 6))),
        (
            "init-again-after-failover",
            "the request for the next epoch comes again, and another coordinator has taken over",
            _init(_DONE, (10, 6), reloaded=True),
        ),
        ("init-fenced", "the client's epoch is an older one", _init(_DONE, (10, 5))),
        ("init-other-producer-id", "the transactional id has another producer id by now", _init(_DONE, (99, 7))),
        ("init-during-transaction", "a new instance begins, and a transaction is open", _init(_ONGOING)),
        (
            "init-during-transaction-at-32766",
            "a new instance begins, and a transaction is open in epoch 32766",
            _init(replace(_ONGOING, producer_epoch=_EXHAUSTED)),
        ),
        (
            "init-during-transaction-at-32767",
            "a new instance begins, and a transaction is open in epoch 32767",
            _init(replace(_ONGOING, producer_epoch=_LAST)),
        ),
        ("init-while-ending", "the transaction is ending", _init(_COMMITTING)),
        (
            "init-while-writing",
            "a record of the transactional id is being written",
            _init(replace(_DONE, is_pending=True)),
        ),
        ("init-at-32766", "the epoch is exhausted", _init(replace(_DONE, producer_epoch=_EXHAUSTED))),
        (
            "init-again-at-32766",
            "the epoch is exhausted, and the request comes again",
            _init(replace(_DONE, producer_epoch=_EXHAUSTED, last_producer_epoch=_EXHAUSTED - 1), (10, _EXHAUSTED - 1)),
        ),
        (
            "init-impossible-state",
            "the state is one that is in memory alone",
            _init(replace(_DONE, state=TransactionState.DEAD)),
        ),
        ("init-without-id", "the producer has no transactional id", _request(InitProducerIdRequest(None))),
        ("init-empty-id", "the transactional id is an empty text", _request(InitProducerIdRequest(""))),
        (
            "init-half-named",
            "producer id or epoch is given alone",
            _request(InitProducerIdRequest("id", producer_id=5)),
        ),
        (
            "init-timeout-too-long",
            "transaction.timeout.ms is above the broker's transaction.max.timeout.ms",
            _request(InitProducerIdRequest("id", 900_001)),
        ),
        (
            "init-in-two-phases",
            "two-phase commit is asked for, and the broker does not allow it",
            _request(InitProducerIdRequest("id", in_two_phases=True)),
        ),
        (
            "init-keep-prepared",
            "a prepared transaction is to be kept",
            _request(InitProducerIdRequest("id", keep_prepared=True)),
        ),
    ),
    *_of(
        "AddPartitionsToTxn",
        ("add-partition", "a transaction is open", _add(_ONGOING)),
        ("add-partition-unknown-id", "the transactional id is unknown, or has expired", _add(None)),
        (
            "add-partition-other-producer-id",
            "the transactional id has another producer id",
            _add(_ONGOING, producer_id=99),
        ),
        ("add-partition-fenced", "the client's epoch is not the current one", _add(_ONGOING, 6)),
        ("add-partition-while-ending", "the transaction before is still ending", _add(_COMMITTING)),
        (
            "add-partition-while-writing",
            "a record of another producer's transaction is being written",
            _add(replace(_ONGOING, is_pending=True), producer_id=99),
        ),
    ),
    *_of(
        "EndTxn(COMMIT)",
        ("commit", "the transaction is open", _end(_ONGOING, 7, commit=True)),
        ("commit-nothing", "nothing was sent", _end(_EMPTY, 7, commit=True)),
        ("commit-again", "the transaction is committed already", _end(_DONE, 7, commit=True)),
        (
            "commit-again-before-bump",
            "the transaction is committed already, and the client's epoch is the one before",
            _end(_DONE, 6, commit=True),
        ),
        ("commit-after-abort", "the transaction is aborted already", _end(_ABORTED, 7, commit=True)),
        (
            "commit-after-timeout",
            "the transaction timed out, and was aborted over the client's head",
            _end(_ONGOING, 7, commit=True, fenced=True),
        ),
        (
            "commit-while-committing",
            "the transaction is being committed, and the client's epoch is the one before",
            _end(_COMMITTING, 6, commit=True),
        ),
        (
            "commit-while-aborting",
            "the transaction is being aborted, and the client's epoch is the one before",
            _end(_ABORTING, 6, commit=True),
        ),
        ("commit-fenced", "the client's epoch is an older one", _end(_ONGOING, 5, commit=True)),
        (
            "commit-other-producer-id",
            "the transactional id has another producer id",
            _end(_ONGOING, 7, commit=True, producer_id=99),
        ),
        (
            "commit-at-32766",
            "the epoch is exhausted",
            _end(replace(_ONGOING, producer_epoch=_EXHAUSTED), _EXHAUSTED, commit=True),
        ),
        ("commit-at-32767", "no epoch is left", _end(replace(_ONGOING, producer_epoch=_LAST), _LAST, commit=True)),
    ),
    *_of(
        "EndTxn(ABORT)",
        ("abort", "the transaction is open", _end(_ONGOING, 7, commit=False)),
        ("abort-nothing", "nothing was sent", _end(_EMPTY, 7, commit=False)),
        ("abort-again", "the transaction is aborted already", _end(_ABORTED, 7, commit=False)),
        ("abort-after-commit", "the transaction is committed already", _end(_DONE, 7, commit=False)),
        (
            "abort-after-timeout",
            "the transaction timed out, and was aborted over the client's head",
            _end(_ONGOING, 7, commit=False, fenced=True),
        ),
        (
            "abort-while-committing",
            "the transaction is being committed, as after a commit that timed out",
            _end(_COMMITTING, 6, commit=False),
        ),
        ("abort-while-aborting", "the transaction is being aborted", _end(_ABORTING, 6, commit=False)),
        ("abort-at-32767", "no epoch is left", _end(replace(_ONGOING, producer_epoch=_LAST), _LAST, commit=False)),
    ),
    *_of(
        "(by the clock)",
        ("timeout", "a transaction is open for longer than its timeout", _time_out(60_000)),
        ("timeout-in-two-phases", "a transaction in two phases is open for 30 days", _time_out(TWO_PHASE_TIMEOUT_MS)),
        ("expiration", "nothing was heard of a transactional id for transactional.id.expiration.ms", _expire),
    ),
)
