"""Scenarios of exactly-once, one test each, by number: identities, appends, restores, reactions, losses.

Those of `__transaction_state` (T01 to T14), of risk (T73, T74, T76 to T83), of log starts (T90, T91, T94) and of
hanging transactions (T95 to T107) are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference.append_cases import append_cases, ask_model, read_log
from tests.reference.command import tiersnap
from tests.reference.coordinator_cases import ERAS, init_cases
from tests.reference.kip952_log import NOW, write_kip952_log
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.batch_relation import Judged, Relation, SeenBatch, relation
from tiersnap.snapshot.models.broker_eras import BROKER_ERA, BROKER_ERAS
from tiersnap.snapshot.models.client_eras import CLIENT_ERA, CLIENT_ERAS, Reaction, Severity
from tiersnap.snapshot.models.coordinator_request import (
    InitProducerIdRequest,
    as_reported,
    check_request,
    is_timed_out,
    is_transactional_id_expired,
)
from tiersnap.snapshot.models.coordinator_state import (
    KIP_588,
    KIP_890,
    KIP_890_IN_4_0_0,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    after_failover,
)
from tiersnap.snapshot.models.end_transaction import completed, end_transaction
from tiersnap.snapshot.models.exception_groups import exception_group
from tiersnap.snapshot.models.fence_abort import fence_abort
from tiersnap.snapshot.models.init_producer_id import init_producer_id
from tiersnap.snapshot.models.produce_reaction import SentBatch, react
from tiersnap.snapshot.models.state_loss import Evidence, LossVerdict, judge_lost_producer
from tiersnap.snapshot.models.transaction_reaction import react_to_coordinator, repair_steps
from tiersnap.snapshot.simulate.replica_state import entry_batches
from tiersnap.snapshot.state.producer_state import ENTRY_DTYPE, live_entries

pytestmark = pytest.mark.unit

Scenario = Callable[[Path], None]
SCENARIOS: dict[str, list[Scenario]] = {}
DAY = 86_400_000
ONGOING = TransactionMetadata(10, 7, TransactionState.ONGOING, last_producer_epoch=6)


def scenario(number: str) -> Callable[[Scenario], Scenario]:
    def add(check: Scenario) -> Scenario:
        SCENARIOS.setdefault(number, []).append(check)
        return check

    return add


def _numbered(name: str) -> str | None:
    """T40 of T40a; None of cases that are no scenario."""
    return name[:3] if name[:1] == "T" and name[1:3].isdigit() else None


def _from_tables() -> None:
    for case in append_cases():

        def check_append(_: Path, case=case) -> None:
            for era in BROKER_ERAS:
                assert (era.name, ask_model(case, era).answer) == (era.name, case.answers[era.name])

        if _numbered(case.number):
            scenario(_numbered(case.number))(check_append)
    for case in init_cases():

        def check_init(_: Path, case=case) -> None:
            for era in ERAS.values():
                found = case.ask(era)
                assert (era.name, found.answer, found.identity) == (era.name, *case.expected(era.name)[:2])

        if _numbered(case.number):
            scenario(_numbered(case.number))(check_init)


_from_tables()


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


@scenario("T34")
def _(_: Path) -> None:
    assert check_request(InitProducerIdRequest("id", producer_id=5)) is Answer.INVALID_REQUEST
    assert check_request(InitProducerIdRequest(None, producer_id=5, producer_epoch=3)) is Answer.NONE
    assert check_request(InitProducerIdRequest("")) is Answer.INVALID_REQUEST
    assert check_request(InitProducerIdRequest("id", producer_id=5, version=2)) is None


@scenario("T35")
def _(_: Path) -> None:
    exhausted = replace(ONGOING, producer_epoch=32766)
    ended = end_transaction(exhausted, exhausted.identity, commit=True, transaction_version=2, new_producer_id=11)
    assert (ended.identity, ended.record.identity, ended.record.next_producer_id) == ((11, 0), (10, 32767), 11)
    done = completed(ended.record)
    assert (done.state, done.identity, done.last_producer_epoch) == (TransactionState.COMPLETE_COMMIT, (11, 0), 32766)
    assert completed(after_failover(ended.record, KIP_890)).identity == (10, 32767)


@scenario("T36")
def _(_: Path) -> None:
    done = TransactionMetadata(10, 8, TransactionState.COMPLETE_COMMIT, last_producer_epoch=7)

    def end(epoch: int, *, commit: bool):
        supplied = ProducerIdAndEpoch(10, epoch)
        return end_transaction(done, supplied, commit=commit, transaction_version=2, new_producer_id=11)

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


@scenario("T40")
def _(_: Path) -> None:
    offsets = {case.number: ask_model(case, BROKER_ERA["B10"]).first_offset for case in append_cases()}
    assert (offsets["T40a"], offsets["T40b"]) == (41, 36)


@scenario("T43")
def _(_: Path) -> None:
    reactions = [react(Answer.INVALID_PRODUCER_EPOCH, era, SentBatch(), transactional=True) for era in CLIENT_ERAS]
    assert [each.reaction.severity for each in reactions] == [Severity.FATAL] * 3 + [Severity.ABORTABLE] * 3


@scenario("T51")
def _(_: Path) -> None:
    entry, _offset = read_log("e3[2147483645-1]", BROKER_ERA["B10"])
    restarted = snapshot_file.decode(snapshot_file.encode(entries_of((7, 3, 1, 104, 4))))
    assert (entry.last_sequence, entry.batches[0].first_sequence) == (1, 2147483645)
    assert entry_batches(restarted)["first_sequence"].tolist() == [2147483645]


def entries_of(*rows: tuple[int, int, int, int, int], timestamp: int = NOW) -> np.ndarray:
    """(producer id, epoch, last sequence, last offset, offset delta) as entries."""
    return np.array([(*row, timestamp, -1, -1) for row in rows], ENTRY_DTYPE)


@scenario("T59")
def _(tmp_path: Path) -> None:
    emptied = lb.empty_batch(6, 1, 7, 4, control=True, transactional=True)
    write = [lb.data_batch(0, 5, 7, 3, 0, timestamp=NOW), lb.data_batch(5, 1), emptied, lb.data_batch(7, 1)]
    lb.write_partition(tmp_path, "emptied", 0, {0: write}, high_watermark=8)
    ran = tiersnap("simulate", tmp_path, "--now", str(NOW), "--all", "--broker", "4.1")
    assert {row["replica_answer"] for row in ran.rows if row["write"] == "NEXT"} == {"ACCEPT"}
    assert {row["replica_answer"] for row in ran.rows if row["write"] == "BUMPED_EPOCH"} == {"ACCEPT"}


@scenario("T63")
def _(_: Path) -> None:
    assert snapshot_file.encode(np.empty(0, ENTRY_DTYPE)).hex() == "000148674bc700000000"


@scenario("T64")
def _(_: Path) -> None:
    rows = [
        (1, 0, 0, 0, 0, NOW - DAY, -1, -1),
        (2, 0, 0, 1, 0, NOW - DAY, -1, 1),
        (3, 0, 0, 2, 0, NOW - DAY + 1, -1, -1),
    ]
    kept = live_entries(np.array(rows, ENTRY_DTYPE), as_of=NOW, expiration=DAY)
    assert kept["producer_id"].tolist() == [2, 3]


def unknown(era: str, *, transactional: bool, log_start: int, epoch: int = 0) -> Reaction:
    batch = SentBatch(log_start_offset=log_start, last_acked_offset=99, producer_epoch=epoch)
    return react(Answer.UNKNOWN_PRODUCER_ID, CLIENT_ERA[era], batch, transactional=transactional).reaction


@scenario("T65")
def _(_: Path) -> None:
    assert unknown("C1", transactional=False, log_start=100) is Reaction.RENUMBER


@scenario("T66")
def _(_: Path) -> None:
    assert unknown("C1", transactional=False, log_start=99) is Reaction.FAIL_NEW_ID


@scenario("T67")
def _(_: Path) -> None:
    assert unknown("C2", transactional=False, log_start=99) is Reaction.BUMP
    assert unknown("C2", transactional=False, log_start=99, epoch=32767) is Reaction.NEW_ID


@scenario("T68")
def _(_: Path) -> None:
    assert unknown("C2", transactional=True, log_start=100) is Reaction.RENUMBER
    assert unknown("C2", transactional=True, log_start=99) is Reaction.ABORT
    steps = repair_steps(Answer.UNKNOWN_PRODUCER_ID, CLIENT_ERA["C2"])
    assert steps == ("EndTxn(abort)", "InitProducerId(producer id, epoch)")


@scenario("T69")
def _(_: Path) -> None:
    timed_out = completed(fence_abort(ONGOING, KIP_588, new_producer_id=11).record)
    found = react(Answer.INVALID_PRODUCER_EPOCH, CLIENT_ERA["C3"], SentBatch(), transactional=True)
    assert found.reaction is Reaction.ABORT
    ended = end_transaction(timed_out, ONGOING.identity, commit=False, transaction_version=1, new_producer_id=11)
    assert ended.answer is Answer.PRODUCER_FENCED
    assert react_to_coordinator(ended.answer, "EndTxn", CLIENT_ERA["C3"]).reaction is Reaction.FATAL
    by_version_2 = completed(fence_abort(ONGOING, KIP_890, new_producer_id=11).record)
    ended = end_transaction(by_version_2, ONGOING.identity, commit=False, transaction_version=2, new_producer_id=11)
    assert (ended.answer, ended.identity) == (Answer.NONE, (10, 8))


@scenario("T69b")
def _(_: Path) -> None:
    found = [
        react_to_coordinator(Answer.INVALID_PRODUCER_ID_MAPPING, "AddPartitionsToTxn", era).reaction
        for era in CLIENT_ERAS
    ]
    fatal, abort = Reaction.FATAL, Reaction.ABORT
    assert found == [fatal, fatal, abort, abort, fatal, fatal]
    steps = [repair_steps(Answer.INVALID_PRODUCER_ID_MAPPING, CLIENT_ERA[era]) for era in ("C2", "C3")]
    assert steps == [("InitProducerId(producer id, epoch)",)] * 2


@scenario("T69c")
def _(_: Path) -> None:
    error = Answer.TOPIC_AUTHORIZATION_FAILED
    assert react_to_coordinator(error, "AddPartitionsToTxn", CLIENT_ERA["C5"]).reaction is Reaction.ABORT
    assert exception_group(error).proposed is Severity.FATAL


@scenario("T69d")
def _(_: Path) -> None:
    gap = SentBatch(has_unresolved=True)
    found = [
        react(Answer.DELIVERY_TIMED_OUT, CLIENT_ERA[era], gap, transactional=True).reaction for era in ("C1", "C3")
    ]
    assert found == [Reaction.FATAL, Reaction.ABORT]


def kip952(tmp_path: Path, *words: str, **options):
    write_kip952_log(tmp_path, **options)
    return tiersnap("simulate", tmp_path, "--from", "empty", "--at", "200", "--now", str(NOW), *words)


@scenario("T70")
def _(tmp_path: Path) -> None:
    ran = kip952(tmp_path, "--producers", "--broker", "4.1")
    assert {row["producer_id"] for row in ran.rows if not row["known"]} == {1, 2}
    assert {row["producer_id"] for row in ran.rows} == {1, 2}


@scenario("T71")
def _(tmp_path: Path) -> None:
    (row,) = (
        row for row in kip952(tmp_path).rows if row["write"] == "RETRY_OF_LAST" and row["replica_answer"] == "ACCEPT"
    )
    assert (row["brokers"], row["writes"], row["doubles"]) == ("0.11-4.4", 2, True)


@scenario("T72")
def _(tmp_path: Path) -> None:
    found = kip952(tmp_path, "--producers", "--broker", "2.3", first_sequence=5).rows
    first = {row["write"]: row for row in found if row["producer_id"] == 1}
    assert first["RETRY_OF_LAST"]["replica_answer"] == "UNKNOWN_PRODUCER_ID"
    since = tiersnap(
        "simulate", tmp_path, "--from", "empty", "--at", "200", "--now", str(NOW), "--producers", "--broker", "3.9"
    )
    assert since.row(producer_id=1, write="RETRY_OF_LAST")["doubles"]


@scenario("T75")
def _(tmp_path: Path) -> None:
    found = kip952(tmp_path, "--producers", "--broker", "4.1", again=250).rows
    of_first = {row["write"]: row["replica_answer"] for row in found if row["producer_id"] == 1}
    # It knows the producer again, and less of it: NEXT and RETRY_OF_LAST are answered as the leader does.
    assert of_first == {
        "RETRY_OF_OLDER": "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "RESET_TO_ZERO": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    }


def judge(last: int | None, log_start: int, log_end: int = 1000, *, as_of: int = NOW, **more):
    found = judge_lost_producer(Evidence(last, log_start, log_end, **more), as_of=as_of, expiration=DAY)
    return found.verdict, found.is_real_loss


@scenario("T84")
def _(_: Path) -> None:
    assert judge(99, 100) == (LossVerdict.SPURIOUS_RETENTION, False)


@scenario("T85")
def _(_: Path) -> None:
    found = judge_lost_producer(
        Evidence(100, 100, 1000, batch_is_there=True, last_timestamp=NOW - 2 * DAY), as_of=NOW, expiration=DAY
    )
    assert (found.verdict, found.is_real_loss, found.is_false_alarm) == (LossVerdict.EXPIRED, False, True)


@scenario("T86")
def _(_: Path) -> None:
    found = judge(100, 100, batch_is_there=True, last_timestamp=NOW - 3_600_000)
    assert found == (LossVerdict.STATE_LOST, False)


@scenario("T87")
def _(_: Path) -> None:
    found = [judge(500, 0, 450, earlier_high_watermark=mark) for mark in (480, 500, 501)]
    unacked = (LossVerdict.UNACKED_TRUNCATION, False)
    assert found == [unacked, unacked, (LossVerdict.TRUNCATED, True)]


@scenario("T88")
def _(_: Path) -> None:
    assert judge(300, 0, other_batch_is_there=True, earlier_high_watermark=400) == (LossVerdict.DIVERGED, True)


@scenario("T89")
def _(_: Path) -> None:
    found = relation(SeenBatch(0, 17, 17), (SeenBatch(0, 0, 9),), is_compacted=True)
    assert found == Judged(Relation.COMPACTION_GAP, 7)


@scenario("T92")
def _(_: Path) -> None:
    assert relation(SeenBatch(0, 5, 9), ()).relation is Relation.FIRST_WRITE_LOST
    assert relation(SeenBatch(0, 5, 9), (), log_start_offset=7).relation is Relation.FRONT_TRUNCATED


@scenario("T93")
def _(_: Path) -> None:
    first, second = SeenBatch(0, 0, 9), SeenBatch(0, 10, 19)
    assert relation(second, (first,)).relation is Relation.OK
    assert relation(first, (first, second)).relation is Relation.DUPLICATE_EXACT


@pytest.mark.parametrize("number", sorted(SCENARIOS, key=lambda number: (int(number[1:3]), number)))
def test_scenario(number: str, tmp_path: Path) -> None:
    for index, check in enumerate(SCENARIOS[number]):
        folder = tmp_path / str(index)
        folder.mkdir()
        check(folder)


def test_every_scenario_of_the_models_is_here():
    wanted = {*range(15, 73), 75, *range(84, 90), 92, 93}
    assert {int(number[1:3]) for number in SCENARIOS} == wanted
