"""`tiersnap explain`: facts of Kafka's releases, found by error and by situation."""

from __future__ import annotations

import pytest

from tests.reference.command import assert_said, tiersnap
from tiersnap.snapshot.explain.errors import ERRORS, named_error
from tiersnap.snapshot.explain.explain import explain, names
from tiersnap.snapshot.explain.explained import SITUATIONS
from tiersnap.snapshot.models import append, append_marker, end_transaction, init_producer_id, verification
from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.exception_groups import TABLE as GROUPS

pytestmark = pytest.mark.unit

# Situation, release, and the answers: of a coordinator first with transaction.version 0 or 1, then with 2.
FACTS = [
    ("unknown-producer", "0.11", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("unknown-producer", "2.4.1", "UNKNOWN_PRODUCER_ID"),
    ("unknown-producer", "2.5", "ACCEPT"),
    ("unknown-producer-in-transaction", "4.0.1", "ACCEPT"),
    ("unknown-producer-in-transaction", "4.1.1", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("retry", "4.4", "DUPLICATE_ACK"),
    ("retry-of-oldest", "1.0.1", "DUPLICATE_SEQUENCE_NUMBER"),
    ("retry-of-oldest", "1.1", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("after-marker", "2.3", "UNKNOWN_PRODUCER_ID"),
    ("beside-verification", "3.5", "ACCEPT"),
    ("beside-verification", "3.6", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("not-in-transaction", "3.7", "INVALID_TXN_STATE"),
    ("not-in-transaction", "3.9", "TRANSACTION_ABORTABLE"),
    ("marker-without-bump", "4.1", "ACCEPT"),
    ("marker-without-bump", "4.2", "INVALID_PRODUCER_EPOCH"),
    ("marker-of-last-epoch", "4.3", "ACCEPT"),
    ("init-fenced", "2.6", "INVALID_PRODUCER_EPOCH"),
    ("init-fenced", "3.9", "PRODUCER_FENCED"),
    ("init-during-transaction-at-32767", "4.1", "UNKNOWN_SERVER_ERROR UNKNOWN_SERVER_ERROR"),
    ("init-during-transaction-at-32767", "4.3", "CONCURRENT_TRANSACTIONS CONCURRENT_TRANSACTIONS"),
    ("init-again-after-failover", "4.4", "PRODUCER_FENCED PRODUCER_FENCED"),
    ("init-in-two-phases", "4.0", ""),
    ("init-in-two-phases", "4.1", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ("init-half-named", "2.4", ""),
    ("commit-after-timeout", "4.1", "PRODUCER_FENCED INVALID_TXN_STATE"),
    ("abort-after-timeout", "4.0.0", "PRODUCER_FENCED PRODUCER_FENCED"),
    ("abort-after-timeout", "4.1", "PRODUCER_FENCED NONE"),
    ("abort-nothing", "4.1", "INVALID_TXN_STATE NONE"),
    ("commit-at-32767", "4.4", "NONE UNKNOWN_SERVER_ERROR"),
    ("add-partition-while-writing", "3.9", "INVALID_PRODUCER_ID_MAPPING"),
    ("add-partition-while-writing", "4.0.1", "CONCURRENT_TRANSACTIONS CONCURRENT_TRANSACTIONS"),
]  # fmt: skip


@pytest.mark.parametrize(("situation", "release", "answers"), FACTS, ids=lambda value: value or "nothing")
def test_situation_is_answered_as_the_release_does(situation, release, answers):
    found = [row.answer for row in explain(situation, broker=release).rows if row.situation is not None]
    assert [str(each) for each in found] == answers.split()


@pytest.mark.parametrize(
    ("situation", "changes"),
    [("unknown-producer", {"0.11": "KIP-98", "1.0.0-2.4": "KAFKA-5494, KAFKA-5793", "2.5-4.4": "KIP-360"}),
     ("marker-without-bump", {"0.11-4.1": "KIP-98", "4.2-4.4": "KIP-1228"}),
     ("verified", {"0.11-4.4": "KIP-98"})],
)  # fmt: skip
def test_situation_names_what_changed_its_answer(situation, changes):
    rows = explain(situation).rows
    assert {row.releases: row.changed_by for row in rows if row.who == "broker"} == changes


def test_error_is_found_in_the_situations_that_a_release_answers_so():
    old, new = (
        {row.situation for row in explain("UNKNOWN_PRODUCER_ID", broker=release).rows if row.situation}
        for release in ("2.4", "2.5")
    )
    assert old == {"unknown-producer", "unknown-producer-in-transaction", "after-marker"}
    assert new == set()


@pytest.mark.parametrize(
    ("client", "severities"),
    [("2.4", {"RETRY", "FAIL_BATCH", "FATAL"}), ("2.5", {"RETRY", "ABORTABLE"})],
)
def test_error_is_met_by_each_client_as_its_tables_say(client, severities):
    rows = explain("UnknownProducerIdException", client=client).rows
    assert {row.severity for row in rows if row.who == "client" and row.request.startswith("Produce")} == severities


def test_abort_is_mended_by_what_the_coordinator_of_the_broker_takes():
    def steps(broker, client):
        rows = explain("45", broker=broker, client=client).rows
        return [row.does for row in rows if row.request == "abortTransaction()"]

    assert steps("2.4", "3.9") == ["sends EndTxn(abort)"]
    assert steps("3.9", "3.9") == ["sends EndTxn(abort), InitProducerId(producer id, epoch)"]
    assert steps("4.1", "4.1") == ["sends EndTxn(abort), InitProducerId(producer id, epoch)", "sends EndTxn(abort)"]


@pytest.mark.parametrize(
    "word",
    ["OUT_OF_ORDER_SEQUENCE_NUMBER", "outofordersequenceexception", "45",
     "org.apache.kafka.common.errors.OutOfOrderSequenceException"],
)  # fmt: skip
def test_error_is_known_by_each_of_its_names(word):
    assert named_error(word).error is Answer.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_every_error_has_a_name_and_every_name_an_explanation():
    assert {each.error for each in ERRORS} == {answer for answer in Answer if answer.is_error}
    listed = [name for name, _, _ in names()]
    assert len(listed) == len(set(listed)) == len(ERRORS) + len(SITUATIONS)
    for name in listed:
        assert explain(name).rows, name
    assert explain("no-such-thing") is None


def test_situations_meet_every_answer_of_the_tables():
    def cells(table, *not_answers):
        return {cell for row in table for name, cell in row.items() if name not in not_answers}

    tables = (init_producer_id.TABLE, end_transaction.TABLE_OF_VERSION_1, end_transaction.TABLE_OF_VERSION_2)
    named = {word for table in (*tables, append_marker.TABLE) for word in cells(table) if word in Answer.__members__}
    by_word = {**append._CELLS, **verification._CELLS}
    short = {word for table in (append.SEQUENCES, verification.TABLE) for word in cells(table)} & by_word.keys()
    wanted = {Answer[word] for word in named} | {by_word[word] for word in short} - {None}
    assert wanted <= {row.answer for each in SITUATIONS for row in explain(each.name).rows if row.situation}


def test_application_rows_are_there_for_every_error_that_kips_speak_of_and_clients_get():
    for error in (Answer(row["error"]) for row in GROUPS):
        rows = explain(error).rows
        assert any(row.who == "application" for row in rows) == any(row.who == "client" for row in rows), error


def test_command_prints_rows_that_name_the_error_and_its_number():
    ran = tiersnap("explain", "OutOfOrderSequenceException", "--broker", "4.1", "--client", "3.9")
    assert_said(ran, 0, "error 45")
    assert {row["who"] for row in ran.rows} == {"broker", "client", "application"}
    assert {row["answer"] for row in ran.rows} == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}


def test_command_says_when_a_release_never_answers_so():
    assert_said(
        tiersnap("explain", "UNKNOWN_PRODUCER_ID", "--broker", "4.1"), 0, "not modelled as an answer of Kafka 4.1"
    )


def test_command_without_a_word_lists_what_it_knows():
    listed = {row["name"] for row in tiersnap("explain").rows}
    assert {"PRODUCER_FENCED", "retry", "commit-after-timeout", "timeout-in-two-phases"} <= listed


def test_command_refuses_what_it_does_not_know():
    assert_said(tiersnap("explain", "nothing"), 2, "neither an error of producers nor a situation", "tiersnap explain")
    assert_said(tiersnap("explain", "retry", "--broker", "latest"), 2, "no release of Kafka")
