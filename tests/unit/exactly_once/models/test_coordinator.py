"""The coordinator's answers to InitProducerId, EndTxn and AddPartitionsToTxn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.reference.coordinator_answers import RELEASES, golden_answers
from tests.reference.coordinator_cases import ERAS, InitCase, init_cases
from tests.reference.coordinator_eras import (
    BEFORE_KIP_360,
    KIP_360_DRAFT,
    KIP_588,
    KIP_588_IN_4_0,
    KIP_588_IN_4_3,
    KIP_890,
    KIP_890_IN_4_0_0,
    KIP_890_IN_4_2,
    KIP_890_IN_4_3,
)
from tiersnap.snapshot.exactly_once.models import end_transaction as ends
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    COORDINATOR_ERAS,
    InitProducerIdRequest,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    after_failover,
    as_reported,
    check_request,
    coordinator_era_of,
    is_timed_out,
    is_transactional_id_expired,
)
from tiersnap.snapshot.exactly_once.models.end_transaction import add_partitions, end_transaction, fence_abort
from tiersnap.snapshot.exactly_once.models.init_producer_id import TABLE, init_producer_id

pytestmark = pytest.mark.unit

CASES = init_cases()
ONGOING = TransactionMetadata(10, 7, TransactionState.ONGOING, last_producer_epoch=6)


@pytest.mark.parametrize("release", RELEASES)
def test_coordinator_answers_as_kafkas_classes_of_each_release_did(release):
    found = [(question, answer) for question, name, answer in golden_answers() if name == release]
    assert len(found) >= 250
    for question, answer in found:
        era = coordinator_era_of(release, question.server_version)
        assert (question.line, question.answered(era)) == (question.line, answer)


@pytest.mark.parametrize(
    ("release", "version", "name"),
    [("2.4.1", 1, "before KIP-360"), ("2.5", 0, "KIP-360"), ("3.9.1", 1, "KIP-588"), ("4.0.1", 1, "KIP-588 in 4.0"),
     ("4.1.1", 0, "KIP-588 in 4.1"), ("4.2", 1, "KIP-588 in 4.2"), ("4.4.0", 1, "KIP-588 in 4.3"),
     ("4.0.0", 2, "KIP-890 in 4.0.0"), ("4.0.1", 2, "KIP-890"), ("4.1", 2, "KIP-890 in 4.1"),
     ("4.2.1", 2, "KIP-890 in 4.2"), ("4.3", 2, "KIP-890 in 4.3")],
)  # fmt: skip
def test_coordinator_era_is_that_of_release_and_transaction_version(release, version, name):
    assert coordinator_era_of(release, version).name == name


def test_coordinator_era_is_refused_when_the_release_lacks_the_version():
    with pytest.raises(ValueError):
        coordinator_era_of("3.9.1", 2)


def test_coordinator_eras_differ_each_from_the_one_before():
    for before, era in pairwise(COORDINATOR_ERAS):
        names = {name: getattr(era, name) for name in ("name", "first", "releases", "changed_by")}
        assert replace(before, **names) != era


@pytest.mark.parametrize("era", ERAS.values(), ids=lambda era: era.name)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.number)
def test_a_coordinator_answers_init_producer_id_in_every_era_as_the_case_says(case: InitCase, era):
    found = case.ask(era)
    aborts = found.record is not None and found.record.state is TransactionState.PREPARE_ABORT
    assert (found.answer, found.identity, aborts) == case.expected(era.name)


def test_the_cases_reach_every_row_of_the_table():
    reached = {case.ask(era).rule for case in CASES for era in ERAS.values()}
    assert reached | {"D1"} == {row["#"] for row in TABLE}


# KIP-360's draft (rules 0.15 of the seeds): current epoch 9 of an instance that began with epoch 5.
@pytest.mark.parametrize(
    ("supplied", "answer", "identity", "instance_epoch"),
    [
        (None, Answer.NONE, (10, 10), 10),
        ((10, 9), Answer.NONE, (10, 10), 5),
        ((10, 8), Answer.NONE, (10, 9), 5),
        ((10, 5), Answer.NONE, (10, 9), 5),
        ((10, 4), Answer.INVALID_PRODUCER_EPOCH, None, None),
        ((10, 10), Answer.INVALID_PRODUCER_EPOCH, None, None),
    ],
)
def test_the_draft_of_kip_360_takes_back_whoever_is_of_the_running_instance(supplied, answer, identity, instance_epoch):
    metadata = TransactionMetadata(10, 9, TransactionState.COMPLETE_COMMIT, instance_epoch=5)
    found = init_producer_id(metadata, supplied and ProducerIdAndEpoch(*supplied), KIP_360_DRAFT, new_producer_id=11)
    assert (found.answer, found.identity) == (answer, identity)
    assert found.record is None or found.record.instance_epoch == instance_epoch


def test_the_last_epoch_is_remembered_only_where_a_client_asked_for_the_bump_by_name():
    at_rest = TransactionMetadata(10, 7, TransactionState.COMPLETE_COMMIT, last_producer_epoch=6)
    by_nobody = init_producer_id(at_rest, None, KIP_588, new_producer_id=11)
    by_name = init_producer_id(at_rest, ProducerIdAndEpoch(10, 7), KIP_588, new_producer_id=11)
    again = init_producer_id(at_rest, ProducerIdAndEpoch(10, 6), KIP_588, new_producer_id=11)
    assert [each.record.last_producer_epoch for each in (by_nobody, by_name, again)] == [-1, 7, 6]


def test_a_retry_across_a_failover_is_fenced_because_no_release_writes_the_last_epoch():
    bumped = init_producer_id(ONGOING_DONE, ProducerIdAndEpoch(10, 7), KIP_588, new_producer_id=11).record
    retried = init_producer_id(bumped, ProducerIdAndEpoch(10, 7), KIP_588, new_producer_id=11)
    reloaded = after_failover(bumped, KIP_588)
    fenced = init_producer_id(reloaded, ProducerIdAndEpoch(10, 7), KIP_588, new_producer_id=11)
    assert (retried.identity, fenced.answer) == ((10, 8), Answer.PRODUCER_FENCED)


ONGOING_DONE = replace(ONGOING, state=TransactionState.COMPLETE_COMMIT)


def test_the_second_retry_across_a_rotation_is_fenced_because_the_first_one_forgot_the_old_producer_id():
    exhausted = replace(ONGOING_DONE, producer_epoch=32766)
    retry = ProducerIdAndEpoch(10, 32766)
    rotated = init_producer_id(exhausted, retry, KIP_588, new_producer_id=11)
    first = init_producer_id(rotated.record, retry, KIP_588, new_producer_id=12)
    second = init_producer_id(first.record, retry, KIP_588, new_producer_id=12)
    assert (rotated.identity, first.identity, second.answer) == ((11, 0), (11, 0), Answer.PRODUCER_FENCED)


@pytest.mark.parametrize("era", [KIP_890, KIP_890_IN_4_3], ids=lambda era: era.name)
def test_a_rotation_is_fenced_across_a_failover_by_another_row_since_4_3(era):
    exhausted = replace(ONGOING_DONE, producer_epoch=32766)
    rotated = init_producer_id(exhausted, ProducerIdAndEpoch(10, 32766), era, new_producer_id=11).record
    retry = ProducerIdAndEpoch(10, 32766)
    assert init_producer_id(rotated, retry, era, new_producer_id=12).identity == (11, 0)
    after = init_producer_id(after_failover(rotated, era), retry, era, new_producer_id=12)
    assert after.answer is Answer.PRODUCER_FENCED
    assert after.rule == ("11" if era.persists_rotation else "2")


@pytest.mark.parametrize(
    ("era", "epoch", "record_epoch", "last"),
    [
        (BEFORE_KIP_360, 7, 8, -1),
        (KIP_588, 7, 8, -1),
        (KIP_588, 32766, 32767, -1),
        (KIP_588_IN_4_0, 32767, None, None),
        (KIP_588_IN_4_3, 32767, 32767, -1),
        (KIP_890_IN_4_0_0, 7, 9, 8),
        (KIP_890_IN_4_0_0, 32766, None, None),
        (KIP_890, 7, 8, 7),
        (KIP_890_IN_4_3, 7, 8, 7),
        (KIP_890_IN_4_2, 32767, None, None),
        (KIP_890_IN_4_3, 32767, 32767, 32767),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_fence_abort_raises_the_epoch_by_what_its_era_does(era, epoch, record_epoch, last):
    found = fence_abort(replace(ONGOING, producer_epoch=epoch), era, new_producer_id=11)
    if record_epoch is None:
        assert (found.answer, found.record) == (Answer.UNKNOWN_SERVER_ERROR, None)
    else:
        assert (found.record.producer_epoch, found.record.last_producer_epoch) == (record_epoch, last)


def test_an_exhausted_fence_abort_reserves_a_producer_id_since_4_3_alone():
    exhausted = replace(ONGOING, producer_epoch=32766)
    found = {
        era: fence_abort(exhausted, era, new_producer_id=11).record.next_producer_id
        for era in (KIP_890, KIP_890_IN_4_3)
    }
    assert found == {KIP_890: -1, KIP_890_IN_4_3: 11}


# What EndTxn of the current epoch (7), and of the epoch before the bump (6), get: transaction version, COMMIT, ABORT.
ENDS = [
    (1, "Ongoing", 7, "NONE", "NONE"),
    (1, "CompleteCommit", 7, "NONE", "INVALID_TXN_STATE"),
    (1, "CompleteAbort", 7, "INVALID_TXN_STATE", "NONE"),
    (1, "PrepareCommit", 7, "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"),
    (1, "PrepareAbort", 7, "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS"),
    (1, "Empty", 7, "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
    (1, "Ongoing", 6, "PRODUCER_FENCED", "PRODUCER_FENCED"),
    (2, "Ongoing", 7, "NONE", "NONE"),
    (2, "Ongoing", 6, "PRODUCER_FENCED", "PRODUCER_FENCED"),
    (2, "CompleteCommit", 6, "NONE", "INVALID_TXN_STATE"),
    (2, "CompleteCommit", 7, "INVALID_TXN_STATE", "NONE"),
    (2, "CompleteAbort", 6, "INVALID_TXN_STATE", "NONE"),
    (2, "CompleteAbort", 7, "INVALID_TXN_STATE", "NONE"),
    (2, "CompleteAbort", 5, "PRODUCER_FENCED", "PRODUCER_FENCED"),
    (2, "PrepareCommit", 6, "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"),
    (2, "PrepareCommit", 7, "PRODUCER_FENCED", "PRODUCER_FENCED"),
    (2, "PrepareAbort", 6, "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS"),
    (2, "Empty", 7, "INVALID_TXN_STATE", "NONE"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "state", "epoch", "commit", "abort"), ENDS)
def test_a_coordinator_ends_a_transaction_as_its_state_and_version_say(version, state, epoch, commit, abort):
    metadata = replace(ONGOING, state=TransactionState(state))
    said = [
        end_transaction(
            metadata,
            ProducerIdAndEpoch(10, epoch),
            KIP_890,
            commit=commits,
            transaction_version=version,
            new_producer_id=11,
        ).answer
        for commits in (True, False)
    ]
    assert said == [Answer[commit], Answer[abort]]


def test_every_row_of_the_tables_of_end_txn_is_a_case():
    for version, table in ((1, ends.TABLE_OF_VERSION_1), (2, ends.TABLE_OF_VERSION_2)):
        assert {row["state"] for row in table} - {"any"} == {case[1] for case in ENDS if case[0] == version}


@pytest.mark.parametrize(
    ("metadata", "supplied", "answer"),
    [
        (None, (10, 7), Answer.INVALID_PRODUCER_ID_MAPPING),
        (ONGOING, (11, 7), Answer.INVALID_PRODUCER_ID_MAPPING),
        (ONGOING, (10, 6), Answer.PRODUCER_FENCED),
        (ONGOING, (10, 8), Answer.PRODUCER_FENCED),
        (ONGOING, (10, 7), Answer.NONE),
        (replace(ONGOING, state=TransactionState.PREPARE_COMMIT), (10, 7), Answer.CONCURRENT_TRANSACTIONS),
        (replace(ONGOING, is_pending=True), (11, 7), Answer.CONCURRENT_TRANSACTIONS),
    ],
)
def test_partitions_are_added_for_exactly_the_current_identity(metadata, supplied, answer):
    assert add_partitions(metadata, ProducerIdAndEpoch(*supplied), KIP_890) is answer


def test_before_4_0_ids_are_compared_before_a_pending_record():
    pending = replace(ONGOING, is_pending=True)
    assert add_partitions(pending, ProducerIdAndEpoch(11, 7), KIP_588) is Answer.INVALID_PRODUCER_ID_MAPPING
    assert add_partitions(pending, ProducerIdAndEpoch(11, 7), KIP_588_IN_4_0) is Answer.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("request_fields", "answer"),
    [
        ({}, None),
        ({"transaction_timeout_ms": 1}, None),
        ({"transaction_timeout_ms": 900_000}, None),
        ({"transaction_timeout_ms": 0}, "INVALID_TRANSACTION_TIMEOUT"),
        ({"transaction_timeout_ms": 900_001}, "INVALID_TRANSACTION_TIMEOUT"),
        ({"transactional_id": None}, "NONE"),
        ({"transactional_id": None, "transaction_timeout_ms": 0}, "NONE"),
        ({"transactional_id": ""}, "INVALID_REQUEST"),
        ({"producer_id": 5}, "INVALID_REQUEST"),
        ({"producer_epoch": 5}, "INVALID_REQUEST"),
        ({"producer_id": 5, "version": 3}, "INVALID_REQUEST"),
        ({"producer_id": 5, "version": 2}, None),
        ({"producer_id": 5, "producer_epoch": 0}, None),
        ({"in_two_phases": True}, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ({"keep_prepared": True}, "UNSUPPORTED_VERSION"),
    ],
    ids=str,
)
def test_request_is_checked_before_its_transactional_id_is_looked_at(request_fields, answer):
    request = InitProducerIdRequest(**{"transactional_id": "id"} | request_fields)
    assert check_request(request) == (None if answer is None else Answer[answer])


def test_request_in_two_phases_needs_a_broker_that_allows_them_and_no_timeout():
    for timeout in (0, 60_000, 900_001):
        asked = InitProducerIdRequest("id", timeout, in_two_phases=True)
        assert check_request(asked, allows_two_phases=True) is None


@pytest.mark.parametrize(
    ("answer", "version", "told"),
    [("PRODUCER_FENCED", 3, "INVALID_PRODUCER_EPOCH"), ("PRODUCER_FENCED", 4, "PRODUCER_FENCED"),
     ("CONCURRENT_TRANSACTIONS", 3, "CONCURRENT_TRANSACTIONS"), ("NONE", 0, "NONE")],
)  # fmt: skip
def test_fenced_is_told_to_old_requests_as_a_stale_epoch(answer, version, told):
    assert as_reported(Answer[answer], version) is Answer[told]


@pytest.mark.parametrize(
    ("start", "timeout", "now", "is_over"),
    [(100, 60, 160, False), (100, 60, 161, True), (0, 2_147_483_646, 2_147_483_647, True),
     (0, 2_147_483_647, 1 << 62, False)],
)  # fmt: skip
def test_transaction_times_out_one_ms_after_its_timeout_and_never_in_two_phases(start, timeout, now, is_over):
    assert is_timed_out(start_timestamp=start, timeout_ms=timeout, now=now) is is_over


@pytest.mark.parametrize("state", TransactionState)
def test_transactional_id_expires_at_rest_when_its_time_is_over(state):
    at_rest = state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    assert is_transactional_id_expired(state, last_update=100, expiration_ms=60, now=160) is at_rest
    assert not is_transactional_id_expired(state, last_update=101, expiration_ms=60, now=160)


@pytest.mark.parametrize(
    ("era", "commit", "answer", "identity"),
    [(KIP_890, True, "UNKNOWN_SERVER_ERROR", None), (KIP_890_IN_4_2, False, "UNKNOWN_SERVER_ERROR", None),
     (KIP_890_IN_4_3, True, "UNKNOWN_SERVER_ERROR", None), (KIP_890_IN_4_3, False, "NONE", (11, 0))],
)  # fmt: skip
def test_end_txn_of_version_2_at_the_last_epoch_is_only_aborted_since_4_3(era, commit, answer, identity):
    last = replace(ONGOING, producer_epoch=32767)
    found = end_transaction(last, last.identity, era, commit=commit, transaction_version=2, new_producer_id=11)
    assert (found.answer, found.identity) == (Answer[answer], identity)
