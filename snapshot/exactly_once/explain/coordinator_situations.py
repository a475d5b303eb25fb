"""Situations that a transaction coordinator answers.

The transactional id of the examples has producer id 10 in epoch 7, and had epoch 6 before. If the coordinator gives a
new producer id, the id is 11.

    known    state of the transactional id, then its epoch unless the epoch is 7; `-` if the id is unknown. `writing`: a
             record is being written. `timed out`: the coordinator aborted the transaction. `reloaded`: another
             coordinator took over
    client   producer id and epoch of the request; `-` if the request has none
"""

from __future__ import annotations

from tiersnap.snapshot.exactly_once.explain.situations import Ask, ExplainedCase, SituationAnswer, situations
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
from tiersnap.snapshot.exactly_once.models.decision_table import Row
from tiersnap.snapshot.exactly_once.models.end_transaction import (
    add_partitions,
    completed,
    end_transaction,
    fence_abort,
)
from tiersnap.snapshot.exactly_once.models.init_producer_id import init_producer_id

_NEW_ID = 11
_REQUESTS = {
    "init-without-id": InitProducerIdRequest(None),
    "init-empty-id": InitProducerIdRequest(""),
    "init-half-named": InitProducerIdRequest("id", producer_id=5),
    "init-timeout-too-long": InitProducerIdRequest("id", 900_001),
    "init-in-two-phases": InitProducerIdRequest("id", in_two_phases=True),
    "init-keep-prepared": InitProducerIdRequest("id", keep_prepared=True),
}


def _known(row: Row) -> TransactionMetadata | None:
    state, *more = row["known"].split()
    if state == "-":
        return None
    epoch = next((int(word) for word in more if word.isdecimal()), 7)
    is_pending = "writing" in more
    return TransactionMetadata(10, epoch, TransactionState(state), last_producer_epoch=epoch - 1, is_pending=is_pending)


def _client(row: Row) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(*map(int, row["client"].split()))


def _record(record: TransactionMetadata | None) -> str:
    if record is None:
        return "writes nothing"
    said = f"writes {record.state}, producer id {record.producer_id}, epoch {record.producer_epoch}"
    if record.next_producer_id < 0:
        return said
    return f"{said}, next producer id {record.next_producer_id}"


def _init(row: Row) -> Ask[CoordinatorEra]:
    metadata, is_reloaded = _known(row), "reloaded" in row["known"]
    supplied = None if row["client"] == "-" else _client(row)

    def ask(era: CoordinatorEra) -> SituationAnswer:
        known = metadata
        if known is not None and is_reloaded:
            known = after_failover(known, era)
        found = init_producer_id(known, supplied, era, new_producer_id=_NEW_ID)
        given = "" if found.identity is None else "gives producer id {}, epoch {}; ".format(*found.identity)
        return SituationAnswer(found.answer, given + _record(found.record))

    return ask


def _request(row: Row) -> Ask[CoordinatorEra]:
    request = _REQUESTS[row["name"]]

    def ask(era: CoordinatorEra) -> SituationAnswer | None:
        if not _has_fields(era, request):
            return None
        answer = check_request(request) or Answer.NONE
        given = "" if answer.is_error else "gives a new producer id, epoch 0; "
        return SituationAnswer(answer, f"{given}writes nothing")

    return ask


def _has_fields(era: CoordinatorEra, request: InitProducerIdRequest) -> bool:
    """Return whether requests of the era have the fields that `request` sets."""
    if request.producer_id >= 0 and era.resume is ResumeRule.NEVER:
        return False
    return era.knows_two_phases or not (request.in_two_phases or request.keep_prepared)


def _add(row: Row) -> Ask[CoordinatorEra]:
    def ask(era: CoordinatorEra) -> SituationAnswer:
        answer = add_partitions(_known(row), _client(row), era)
        return SituationAnswer(answer, "writes nothing" if answer.is_error else "writes Ongoing with the partition")

    return ask


def _end(row: Row) -> Ask[CoordinatorEra]:
    """Return a function that takes an era and returns the coordinator's answer to the row's EndTxn."""
    commit = row["name"].startswith("commit")

    def ask(era: CoordinatorEra) -> SituationAnswer:
        known = _known(row)
        if known is not None and "timed out" in row["known"]:
            record = fence_abort(known, era, new_producer_id=_NEW_ID).record
            known = None if record is None else completed(record)
        if known is None:
            return SituationAnswer(Answer.UNKNOWN_SERVER_ERROR, "could not abort the transaction")
        version = era.transaction_version
        found = end_transaction(
            known, _client(row), era, commit=commit, transaction_version=version, new_producer_id=_NEW_ID
        )
        return SituationAnswer(found.answer, _record(found.record))

    return ask


def _by_clock(row: Row) -> Ask[CoordinatorEra]:
    """Return a function that takes an era and returns the coordinator's action 30 days after a transaction began."""
    ongoing = TransactionMetadata(10, 7, TransactionState.ONGOING, last_producer_epoch=6)
    timeout_ms = int(row["timeout"])

    def ask(era: CoordinatorEra) -> SituationAnswer | None:
        if timeout_ms == TWO_PHASE_TIMEOUT_MS and not era.knows_two_phases:
            return None
        if not is_timed_out(start_timestamp=0, timeout_ms=timeout_ms, now=30 * 86_400_000):
            return SituationAnswer(Answer.NONE, "waits until its application ends the transaction, without a timeout")
        return SituationAnswer(Answer.NONE, _record(fence_abort(ongoing, era, new_producer_id=_NEW_ID).record))

    return ask


def _expire(_era: CoordinatorEra) -> SituationAnswer:
    week = 604_800_000
    is_gone = is_transactional_id_expired(TransactionState.COMPLETE_COMMIT, last_update=0, expiration_ms=week, now=week)
    if is_gone:
        return SituationAnswer(Answer.NONE, "deletes its entry of the transactional id")
    return SituationAnswer(Answer.NONE, "keeps it")


OF_COORDINATORS: tuple[ExplainedCase[CoordinatorEra], ...] = (
    *situations(
        "InitProducerId",
        _init,
        """
 name | known | client | when
 init                             | CompleteCommit          | -    | a new instance begins
 init-unknown-id                  | -                       | 77 5 | the transactional id is unknown, or has expired
 init-by-name                     | CompleteCommit          | 10 7 | \
a client asks for the next epoch, and sends its current epoch
 init-again                       | CompleteCommit          | 10 6 | a client repeats its request for the next epoch
 init-again-after-failover        | CompleteCommit reloaded | 10 6 | \
 a client repeats its request for the next epoch, and another coordinator took over
 init-fenced                      | CompleteCommit          | 10 5 | the client's epoch is too old
 init-other-producer-id           | CompleteCommit          | 99 7 | the transactional id has another producer id by now
 init-during-transaction          | Ongoing                 | -    | a new instance begins while a transaction is open
 init-during-transaction-at-32766 | Ongoing 32766           | -    | \
a new instance begins while a transaction is open in epoch 32766
 init-during-transaction-at-32767 | Ongoing 32767           | -    | \
a new instance begins while a transaction is open in epoch 32767
 init-while-ending                | PrepareCommit           | -    | the transaction is ending
 init-while-writing               | CompleteCommit writing  | -    | a record of the transactional id is being written
 init-at-32766                    | CompleteCommit 32766    | -    | the epoch is exhausted
 init-again-at-32766              | CompleteCommit 32766    | 10 32765 | \
the epoch is exhausted, and the client repeats its request
 init-impossible-state            | Dead                    | -    | \
the transactional id is in state Dead, which exists only in memory
""",
    ),
    *situations(
        "InitProducerId",
        _request,
        """
 name                  | when
 init-without-id       | the producer has no transactional id
 init-empty-id         | the transactional id is an empty text
 init-half-named       | the request has a producer id without an epoch, or an epoch without a producer id
 init-timeout-too-long | transaction.timeout.ms is above the broker's transaction.max.timeout.ms
 init-in-two-phases    | the request is for two-phase commit, and the broker does not allow it
 init-keep-prepared    | the request is to keep a prepared transaction
""",
    ),
    *situations(
        "AddPartitionsToTxn",
        _add,
        """
 name                            | known           | client | when
 add-partition                   | Ongoing         | 10 7   | a transaction is open
 add-partition-unknown-id        | -               | 10 7   | the transactional id is unknown, or has expired
 add-partition-other-producer-id | Ongoing         | 99 7   | the transactional id has another producer id
 add-partition-fenced            | Ongoing         | 10 6   | the client's epoch is not the current one
 add-partition-while-ending      | PrepareCommit   | 10 7   | the previous transaction is still ending
 add-partition-while-writing     | Ongoing writing | 99 7   | \
the coordinator is writing a record of another producer's transaction
""",
    ),
    *situations(
        "EndTxn(COMMIT)",
        _end,
        """
 name                     | known             | client   | when
 commit                   | Ongoing           | 10 7     | the transaction is open
 commit-nothing           | Empty             | 10 7     | nothing was sent
 commit-again             | CompleteCommit    | 10 7     | the transaction is committed already
 commit-again-before-bump | CompleteCommit    | 10 6     | \
the transaction is committed already, and the client has the previous epoch
 commit-after-abort       | CompleteAbort     | 10 7     | the transaction is aborted already
 commit-after-timeout     | Ongoing timed out | 10 7     | \
the coordinator aborted the transaction, because it timed out
 commit-while-committing  | PrepareCommit     | 10 6     | \
the transaction is being committed, and the client has the previous epoch
 commit-while-aborting    | PrepareAbort      | 10 6     | \
the transaction is being aborted, and the client has the previous epoch
 commit-fenced            | Ongoing           | 10 5     | the client's epoch is too old
 commit-other-producer-id | Ongoing           | 99 7     | the transactional id has another producer id
 commit-at-32766          | Ongoing 32766     | 10 32766 | the epoch is exhausted
 commit-at-32767          | Ongoing 32767     | 10 32767 | no epoch is left
""",
    ),
    *situations(
        "EndTxn(ABORT)",
        _end,
        """
 name                   | known             | client   | when
 abort                  | Ongoing           | 10 7     | the transaction is open
 abort-nothing          | Empty             | 10 7     | nothing was sent
 abort-again            | CompleteAbort     | 10 7     | the transaction is aborted already
 abort-after-commit     | CompleteCommit    | 10 7     | the transaction is committed already
 abort-after-timeout    | Ongoing timed out | 10 7     | \
the coordinator aborted the transaction, because it timed out
 abort-while-committing | PrepareCommit     | 10 6     | \
the transaction is still being committed, as after a commit that timed out
 abort-while-aborting   | PrepareAbort      | 10 6     | the transaction is being aborted
 abort-at-32767         | Ongoing 32767     | 10 32767 | no epoch is left
""",
    ),
    *situations(
        "(by the clock)",
        _by_clock,
        """
 name                  | timeout    | when
 timeout               | 60000      | a transaction is open for longer than its timeout
 timeout-in-two-phases | 2147483647 | a transaction in two phases is open for 30 days
""",
    ),
    ExplainedCase(
        "expiration",
        "(by the clock)",
        "no record of a transactional id was written for transactional.id.expiration.ms",
        _expire,
    ),
)
