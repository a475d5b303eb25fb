"""T15 to T38: what a coordinator answers, when it aborts over a producer's head, what expires."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.reference.coordinator_eras import (
    KIP_588,
    KIP_890,
    KIP_890_IN_4_0_0,
)
from tests.reference.kip952_log import NOW
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    InitProducerIdRequest,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    after_failover,
    as_reported,
    check_request,
    is_timed_out,
    is_transactional_id_expired,
)
from tiersnap.snapshot.exactly_once.models.end_transaction import completed, end_transaction, fence_abort
from tiersnap.snapshot.exactly_once.models.init_producer_id import init_producer_id

DAY = 86_400_000
ONGOING = TransactionMetadata(10, 7, TransactionState.ONGOING, last_producer_epoch=6)


def init(metadata: TransactionMetadata, supplied: tuple[int, int] | None, era=KIP_588):
    return init_producer_id(metadata, supplied and ProducerIdAndEpoch(*supplied), era, new_producer_id=11)


@scenario("T15")
@scenario("T16")
def _(_: Path) -> None:
    for supplied in (None, ProducerIdAndEpoch(77, 5)):
        record = init_producer_id(None, supplied, KIP_588, new_producer_id=11).record
        assert (record.identity, record.last_producer_epoch) == ((11, 0), -1)


@scenario("T19")
def _(_: Path) -> None:
    at_rest = replace(ONGOING, state=TransactionState.COMPLETE_COMMIT)
    assert init(after_failover(at_rest, KIP_588), (10, 6)).answer is Answer.PRODUCER_FENCED


@scenario("T20")
def _(_: Path) -> None:
    assert as_reported(Answer.PRODUCER_FENCED, 3) is Answer.INVALID_PRODUCER_EPOCH
    assert as_reported(Answer.PRODUCER_FENCED, 4) is Answer.PRODUCER_FENCED


@scenario("T23")
def _(_: Path) -> None:
    exhausted = TransactionMetadata(10, 32766, TransactionState.COMPLETE_COMMIT)
    record = init(exhausted, (10, 32766)).record
    assert (record.identity, record.last_producer_epoch, record.previous_producer_id) == ((11, 0), 32766, 10)


@scenario("T27")
def _(_: Path) -> None:
    fenced = init(ONGOING, None)
    assert (fenced.answer, fenced.record.producer_epoch) == (Answer.CONCURRENT_TRANSACTIONS, 8)
    assert init(fenced.record, None).answer is Answer.CONCURRENT_TRANSACTIONS
    assert init(completed(fenced.record), None).identity == (10, 9)


@scenario("T28")
def _(_: Path) -> None:
    fenced = init(ONGOING, (10, 3))
    assert fenced.record.state is TransactionState.PREPARE_ABORT
    assert init(completed(fenced.record), (10, 3)).answer is Answer.PRODUCER_FENCED


@scenario("T29")
def _(_: Path) -> None:
    records = [fence_abort(ONGOING, era, new_producer_id=11).record for era in (KIP_890_IN_4_0_0, KIP_890)]
    assert [(each.producer_epoch, each.last_producer_epoch) for each in records] == [(9, 8), (8, 7)]


@scenario("T30")
def _(_: Path) -> None:
    done = completed(fence_abort(ONGOING, KIP_890, new_producer_id=11).record)
    assert init(done, (10, 7), KIP_890).identity == (10, 8)


@scenario("T31")
def _(_: Path) -> None:
    fenced = init(replace(ONGOING, producer_epoch=32766), None).record
    assert fenced.producer_epoch == 32767
    assert init(completed(fenced), None).identity == (11, 0)


@scenario("T33")
def _(_: Path) -> None:
    said = [check_request(InitProducerIdRequest("id", timeout)) for timeout in (0, 900_001, 900_000)]
    assert said == [Answer.INVALID_TRANSACTION_TIMEOUT, Answer.INVALID_TRANSACTION_TIMEOUT, None]
    in_two_phases = InitProducerIdRequest("id", 0, in_two_phases=True)
    assert check_request(in_two_phases) is Answer.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert check_request(in_two_phases, allows_two_phases=True) is None
    assert check_request(InitProducerIdRequest("id", keep_prepared=True)) is Answer.UNSUPPORTED_VERSION


@scenario("T34")
def _(_: Path) -> None:
    assert check_request(InitProducerIdRequest("id", producer_id=5)) is Answer.INVALID_REQUEST
    assert check_request(InitProducerIdRequest(None, producer_id=5, producer_epoch=3)) is Answer.NONE
    assert check_request(InitProducerIdRequest("")) is Answer.INVALID_REQUEST
    assert check_request(InitProducerIdRequest("id", producer_id=5, version=2)) is None


@scenario("T35")
def _(_: Path) -> None:
    exhausted = replace(ONGOING, producer_epoch=32766)
    ended = end_transaction(
        exhausted, exhausted.identity, KIP_890, commit=True, transaction_version=2, new_producer_id=11
    )
    assert (ended.identity, ended.record.identity, ended.record.next_producer_id) == ((11, 0), (10, 32767), 11)
    done = completed(ended.record)
    assert (done.state, done.identity, done.last_producer_epoch) == (TransactionState.COMPLETE_COMMIT, (11, 0), 32766)
    assert completed(after_failover(ended.record, KIP_890)).identity == (10, 32767)


@scenario("T36")
def _(_: Path) -> None:
    done = TransactionMetadata(10, 8, TransactionState.COMPLETE_COMMIT, last_producer_epoch=7)

    def end(epoch: int, *, commit: bool):
        supplied = ProducerIdAndEpoch(10, epoch)
        return end_transaction(done, supplied, KIP_890, commit=commit, transaction_version=2, new_producer_id=11)

    assert (end(7, commit=True).answer, end(7, commit=True).identity) == (Answer.NONE, (10, 8))
    assert end(8, commit=True).answer is Answer.INVALID_TXN_STATE
    assert end(8, commit=False).record.identity == (10, 9)


@scenario("T37")
def _(_: Path) -> None:
    at = {"last_update": NOW - 7 * DAY, "expiration_ms": 7 * DAY, "now": NOW}
    assert is_transactional_id_expired(TransactionState.EMPTY, **at)
    assert not is_transactional_id_expired(TransactionState.ONGOING, **at)
    assert not is_transactional_id_expired(TransactionState.EMPTY, **{**at, "now": NOW - 1})


@scenario("T38")
def _(_: Path) -> None:
    assert not is_timed_out(start_timestamp=NOW - 60_000, timeout_ms=60_000, now=NOW)
    assert is_timed_out(start_timestamp=NOW - 60_001, timeout_ms=60_000, now=NOW)
    assert not is_timed_out(start_timestamp=0, timeout_ms=2_147_483_647, now=NOW)
