"""`tiersnap explain`: facts of Kafka's releases, found by error and by situation."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.command_lines import parse, words_of
from tiersnap.snapshot.exactly_once.explain.broker_words import BROKER_WORDS
from tiersnap.snapshot.exactly_once.explain.explain import ERRORS, SITUATIONS, explain, named_error, names
from tiersnap.snapshot.exactly_once.models import append, end_transaction, init_producer_id, verification
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import read_table
from tiersnap.snapshot.exactly_once.models.exception_groups import TABLE as GROUPS

pytestmark = pytest.mark.unit

# ExplainedCase, release, and the answers: of a coordinator first with transaction.version 0 or 1, then with 2.
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
    ("init-keep-prepared", "4.0", ""),
    ("init-keep-prepared", "4.1", "UNSUPPORTED_VERSION UNSUPPORTED_VERSION"),
    ("init-without-id", "2.4", "NONE"),
    ("init-half-named", "2.4", ""),
    ("init-half-named", "2.5", "INVALID_REQUEST"),
    ("timeout-in-two-phases", "4.0", ""),
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


DOES = [
    ("retry", "4.4", "appends nothing, and answers with the offsets of the first append"),
    ("marker", "4.4", "appends the marker, and ends the transaction"),
    ("marker-again", "4.4", "appends the marker"),
    ("init", "3.9", "gives producer id 10, epoch 8; writes Empty, producer id 10, epoch 8"),
    ("init-unknown-id", "3.9", "gives producer id 11, epoch 0; writes Empty, producer id 11, epoch 0"),
    ("init-again", "3.9", "gives producer id 10, epoch 7; writes Empty, producer id 10, epoch 7"),
    ("init-without-id", "3.9", "gives a new producer id, epoch 0; writes nothing"),
    ("init-during-transaction", "3.9", "writes PrepareAbort, producer id 10, epoch 8"),
    ("add-partition", "3.9", "writes Ongoing with the partition"),
    ("add-partition-fenced", "3.9", "writes nothing"),
    ("commit", "3.9", "writes PrepareCommit, producer id 10, epoch 7"),
    ("abort-at-32767", "3.9", "writes PrepareAbort, producer id 10, epoch 32767"),
    ("timeout", "3.9", "writes PrepareAbort, producer id 10, epoch 8"),
    ("expiration", "3.9", "deletes its entry of the transactional id"),
]


@pytest.mark.parametrize(("situation", "release", "does"), DOES)
def test_situation_says_what_is_written(situation, release, does):
    (row,) = [row for row in explain(situation, broker=release).rows if row.situation is not None]
    assert row.does == does


def test_last_epochs_of_version_2_say_the_next_producer_id_and_two_phases_wait():
    said = {each: [row.does for row in explain(each, broker="4.4").rows if row.transaction_version == 2]
            for each in ("abort-at-32767", "timeout-in-two-phases")}  # fmt: skip
    assert said == {
        "abort-at-32767": ["writes PrepareAbort, producer id 10, epoch 32767, next producer id 11"],
        "timeout-in-two-phases": ["waits until its application ends the transaction, without a timeout"],
    }


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


PRODUCE, AFTER_PRODUCE, ANY = "Produce, idempotent", "Produce, transactional", "any of a transaction"
ABORTS, ENDS = "waits for the application to abort the transaction", "fails everything; the application has to close"
# Error, client, and of each row of it the request, the condition and the beginning of what it does.
CLIENT_FACTS = [
    ("UNKNOWN_PRODUCER_ID", "2.4", [
        (PRODUCE, "the response has no log start offset", "sends the same batch again"),
        (PRODUCE, "the producer gave the batch new sequences", "sends the same batch again"),
        (PRODUCE, "the record that was acknowledged last is below", "numbers all batches in flight from sequence 0"),
        (PRODUCE, "otherwise", "fails the batch and goes on with a new producer id"),
        (AFTER_PRODUCE, "the response has no log start offset", "sends the same batch again"),
        (AFTER_PRODUCE, "the producer gave the batch new sequences", "sends the same batch again"),
        (AFTER_PRODUCE, "the record that was acknowledged last", "numbers all batches in flight from sequence 0"),
        (AFTER_PRODUCE, "otherwise", ENDS),
    ]),
    ("OUT_OF_ORDER_SEQUENCE_NUMBER", "3.9", [
        (PRODUCE, "earlier batches are still in flight", "sends the same batch again"),
        (PRODUCE, "an earlier batch expired after it was sent, and this batch", "sends the same batch again"),
        (PRODUCE, "otherwise", "takes the next epoch"),
        (AFTER_PRODUCE, "earlier batches are still in flight", "sends the same batch again"),
        (AFTER_PRODUCE, "an earlier batch expired after it was sent, and this batch", ABORTS),
        (AFTER_PRODUCE, "otherwise", ABORTS),
    ]),
    ("DELIVERY_TIMED_OUT", "2.5", [
        (PRODUCE, "an earlier batch expired after it was sent", "fails the batch and goes on in the next epoch"),
        (PRODUCE, "otherwise", "fails the batch and sends the next one"),
        (AFTER_PRODUCE, "an earlier batch expired after it was sent, and the coordinator is older than 2.5", ENDS),
        (AFTER_PRODUCE, "an earlier batch expired after it was sent", ABORTS),
        (AFTER_PRODUCE, "otherwise", ABORTS),
    ]),
    ("NOT_ENOUGH_REPLICAS", "4.1", [
        (PRODUCE, "retries remain, and delivery.timeout.ms has not passed", "sends the same batch again"),
        (PRODUCE, "otherwise", "fails the batch and goes on in the next epoch"),
        (AFTER_PRODUCE, "retries remain, and delivery.timeout.ms has not passed", "sends the same batch again"),
        (AFTER_PRODUCE, "otherwise", "lowers the sequences of later batches, and waits for the application to abort; "
         "the application is told TRANSACTION_ABORTABLE"),
    ]),
    ("MESSAGE_TOO_LARGE", "0.11", [
        (PRODUCE, "the batch has several records", "sends the records again in smaller batches"),
        (PRODUCE, "otherwise", "fails the batch and sends the next one"),
        (AFTER_PRODUCE, "the batch has several records", "sends the records again in smaller batches"),
        (AFTER_PRODUCE, "otherwise", ABORTS),
    ]),
    ("INVALID_PRODUCER_ID_MAPPING", "3.9", [
        (AFTER_PRODUCE, "in any case", ABORTS),
        (ANY, "the coordinator is of 2.5 or later", ABORTS),
        (ANY, "otherwise", ENDS),
    ]),
    ("INVALID_PRODUCER_EPOCH", "3.9", [
        (PRODUCE, "in any case", "fails the batch and goes on in the next epoch"),
        (AFTER_PRODUCE, "in any case", ABORTS),
        (ANY, "in any case", "fails everything; the application has to close the producer; "
         "the application is told PRODUCER_FENCED"),
    ]),
    ("PRODUCER_FENCED", "3.9", [(ANY, "in any case", ENDS)]),
    ("NOT_COORDINATOR", "4.4", [(ANY, "in any case", "sends the same request again")]),
    ("CONCURRENT_TRANSACTIONS", "4.1", [
        (AFTER_PRODUCE, "in any case", "sends the same batch again"),
        (ANY, "in any case", "sends the same request again"),
    ]),
    ("TOPIC_AUTHORIZATION_FAILED", "4.1", [
        (PRODUCE, "in any case", "fails the batch and goes on in the next epoch"),
        (AFTER_PRODUCE, "in any case", "lowers the sequences of later batches, and waits for the application to abort"),
        (ANY, "in any case", ABORTS),
    ]),
    ("CLUSTER_AUTHORIZATION_FAILED", "4.1", [(PRODUCE, "in any case", ENDS), (AFTER_PRODUCE, "in any case", ENDS)]),
    ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "4.1", [
        ("InitProducerId", "otherwise", "goes back to the state before initTransactions"),
        (ANY, "otherwise", ENDS),
    ]),
    ("FENCED_INSTANCE_ID", "3.9", [("TxnOffsetCommit", "otherwise", ABORTS), (ANY, "otherwise", ENDS)]),
    ("OPERATION_NOT_ATTEMPTED", "4.1", [("AddPartitionsToTxn", "otherwise", ABORTS), (ANY, "otherwise", ENDS)]),
    ("TRANSACTION_ABORTABLE", "3.9", [(AFTER_PRODUCE, "in any case", ABORTS)]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "client", "facts"), CLIENT_FACTS, ids=lambda value: str(value)[:40])
def test_client_does_with_an_error_what_its_release_does(error, client, facts):
    rows = [row for row in explain(error, client=client).rows if row.who == "client"]
    found = [(row.request, row.when, row.does) for row in rows if row.request != "abortTransaction()"]
    assert [(request, when[: len(fact[1])], does[: len(fact[2])]) for (request, when, does), fact in
            zip(found, facts, strict=True)] == facts  # fmt: skip
    may_abort = any("waits for the application to abort" in does for _, _, does in facts)
    assert any(row.request == "abortTransaction()" for row in rows) == may_abort
    assert {row.answer for row in rows} == {Answer(error)}


@pytest.mark.parametrize(
    ("error", "told"),
    [("NOT_COORDINATOR", "is not reported to the application while the client tries again; of the group "
        "RefreshRetriableException; KIP-691, which Kafka never implemented, proposed the severity RETRY"),
     ("INVALID_TXN_STATE", "is thrown by the next transactional call; of no group; KIP-691, which Kafka never "
         "implemented, proposed the severity FATAL, thrown again by Kafka Streams as TaskMigratedException, "
         "of type TRANSACTION_FAILED"),
     ("MESSAGE_TOO_LARGE", "is given to the callback of send, and thrown by the next transactional call; of no "
         "group; KIP-691, which Kafka never implemented, proposed the severity ABORTABLE, wrapped once, "
         "thrown again by Kafka Streams as TxnCorruptedException, of type MESSAGE_REJECTED"),
     ("GROUP_AUTHORIZATION_FAILED", "is thrown by the next transactional call; of the group "
         "InvalidConfigurationException; KIP-691, which Kafka never implemented, "
         "proposed the severity FATAL, thrown again by Kafka Streams as TaskMigratedException")],
)  # fmt: skip
def test_application_is_told_as_kip_1050_groups_it_and_not_as_kip_691_wanted(error, told):
    (row,) = [row for row in explain(error).rows if row.who == "application"]
    assert (row.releases, row.changed_by, row.does) == ("4.1-4.4", "KIP-1050", told)


@pytest.mark.parametrize(
    ("situation", "reacts"),
    [("add-partition-fenced", True), ("init-fenced", True), ("commit-fenced", True), ("abort-after-timeout", True),
     ("older-epoch", True), ("marker-older-epoch", False), ("timeout", False), ("retry", False)],
)  # fmt: skip
def test_situation_says_what_clients_do_where_clients_get_the_answer(situation, reacts):
    found = {row.who for row in explain(situation, broker="3.9", client="3.9").rows}
    assert ("client" in found) == reacts


def test_abort_is_mended_by_what_the_coordinator_of_the_broker_takes():
    def steps(broker, client):
        rows = explain("45", broker=broker, client=client).rows
        return [row.does for row in rows if row.request == "abortTransaction()"]

    assert steps("2.4", "3.9") == ["sends EndTxn(abort)"]
    assert steps("3.9", "3.9") == ["sends EndTxn(abort), InitProducerId(producer id, epoch)"]
    assert steps("4.1", "4.1") == ["sends EndTxn(abort), InitProducerId(producer id, epoch)", "sends EndTxn(abort)"]
    assert steps("4.0.0", "4.0") == steps("4.1", "4.1")


@pytest.mark.parametrize(
    "word",
    ["OUT_OF_ORDER_SEQUENCE_NUMBER", "outofordersequenceexception", "45",
     "org.apache.kafka.common.errors.OutOfOrderSequenceException"],
)  # fmt: skip
def test_error_is_known_by_each_of_its_names(word):
    assert named_error(word).error is Answer.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_errors_have_the_codes_and_exceptions_of_kafka():
    """tests/golden/errors.txt lists the constants of org.apache.kafka.common.protocol.Errors."""
    rows = read_table((Path(__file__).parents[2] / "golden" / "errors.txt").read_text(encoding="utf-8"))
    kafkas = {row["error"]: (int(row["code"]), row["exception"]) for row in rows}
    listed = dict.fromkeys(name for name, _, _ in names() if name in Answer.__members__)
    for name in (name for name in listed if name != "DELIVERY_TIMED_OUT"):
        assert (name, named_error(name).code, named_error(name).exception) == (name, *kafkas[name])
        assert (name, "", "error {}, {}".format(*kafkas[name])) in names()


def test_error_that_a_client_tells_itself_has_neither_code_nor_exception():
    assert ("DELIVERY_TIMED_OUT", "", "") in list(names())


def test_every_error_has_a_name_and_every_name_an_explanation():
    assert {each.error for each in ERRORS} == {answer for answer in Answer if answer.is_error}
    listed = [name for name, _, _ in names()]
    assert len(listed) == len(set(listed)) == len(ERRORS) + len(SITUATIONS) + len(BROKER_WORDS)
    for name in listed:
        assert explain(name).rows, name
    assert explain("no-such-thing") is None


def test_situations_meet_every_answer_of_the_tables():
    def cells(table, *not_answers):
        return {cell for row in table for name, cell in row.items() if name not in not_answers}

    tables = (init_producer_id.TABLE, end_transaction.TABLE_OF_VERSION_1, end_transaction.TABLE_OF_VERSION_2)
    named = {word for table in (*tables, append.MARKERS) for word in cells(table) if word in Answer.__members__}
    by_word = {**append._CELLS, **verification._CELLS}
    short = {word for table in (append.SEQUENCES, verification.TABLE) for word in cells(table)} & by_word.keys()
    wanted = {Answer[word] for word in named} | {by_word[word] for word in short} - {None}
    assert wanted <= {row.answer for each in SITUATIONS for row in explain(each.name).rows if row.situation}


def test_application_rows_are_there_for_every_error_that_kips_speak_of_and_clients_get():
    for error in (Answer(row["error"]) for row in GROUPS):
        rows = explain(error).rows
        assert any(row.who == "application" for row in rows) == any(row.who == "client" for row in rows), error


def test_command_prints_rows_that_name_the_error_and_its_number():
    ran = tiersnap("explain", "OutOfOrderSequenceException", "--broker", "4.1", "--client", "4.1")
    assert_said(ran, 0, "error 45")
    assert "does not answer" not in ran.err
    assert {row["who"] for row in ran.rows} == {"broker", "client", "application"}
    assert {row["answer"] for row in ran.rows} == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}


def test_command_says_when_a_release_never_answers_so():
    assert_said(
        tiersnap("explain", "UNKNOWN_PRODUCER_ID", "--broker", "4.1"),
        0,
        "Kafka 4.1 does not answer with this error, as far as tiersnap knows",
    )


def test_command_without_a_word_lists_what_it_knows():
    listed = {row["name"] for row in tiersnap("explain").rows}
    assert {"PRODUCER_FENCED", "retry", "commit-after-timeout", "timeout-in-two-phases"} <= listed


def test_command_refuses_what_it_does_not_know():
    said = "tiersnap knows no producer error, situation, KIP or word in broker logs with this name"
    assert_said(tiersnap("explain", "nothing"), 2, said, "tiersnap explain")
    assert_said(tiersnap("explain", "retry", "--broker", "latest"), 2, "not a release of Kafka")


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize(("option", "whose"), [("--broker", "brokers"), ("--client", "clients")])
def test_a_release_that_is_not_known_is_said_to_be_answered_as_the_newest_one(option, whose, output):
    for release in ("4.5", "99.9", "4.10.1"):
        ran = tiersnap("explain", "unknown-producer-in-transaction", option, release, output=output)
        assert_said(ran, 0, f"tiersnap does not know Kafka {release} yet: it shows the {whose} of 4.4")
        assert "4.1-4.4" in ran.out
    for release in ("4.4", "4.4.1", "3.9"):
        assert tiersnap("explain", "unknown-producer-in-transaction", option, release, output=output).err == ""


@pytest.mark.parametrize(
    ("word", "command"),
    [("producerStateSnapshotFile", "tiersnap doctor"),
     ("OFFSET_MOVED_TO_TIERED_STORAGE", "tiersnap verify"),
     ("org.apache.kafka.common.errors.OffsetMovedToTieredStorageException", "tiersnap verify"),
     ("RemoteStorageException", "tiersnap doctor"),
     ("java.lang.NullPointerException", "tiersnap doctor"),
     ('Cannot invoke "java.io.File.toPath()" because "producerStateSnapshotFile" is null', "tiersnap doctor"),
     ("segmentLeaderEpochs can not be null or empty", "tiersnap doctor"),
     ("org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException", "tiersnap doctor")],
)  # fmt: skip
def test_explain_knows_the_words_of_a_stuck_broker(word, command):
    ran = tiersnap("explain", word)
    assert_said(ran, 0, f"next: {command}")
    assert [row["who"] for row in ran.rows] == ["broker"]
    assert "does not answer" not in ran.err
    assert tiersnap("explain", word, "--broker", "3.5").rows == []


LINES = {
    "org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for producer 7 at "
    "offset 405 in partition orders-0: 9 (incoming seq. number), 4 (current end sequence number)": (
        "OUT_OF_ORDER_SEQUENCE_NUMBER"
    ),
    "Got error produce response in correlation id 7 on topic-partition orders-0, splitting and retrying. Error: "
    "UNKNOWN_PRODUCER_ID": "UNKNOWN_PRODUCER_ID",
    "org.apache.kafka.common.errors.InvalidProducerEpochException: Producer attempted to produce with an old epoch.": (
        "INVALID_PRODUCER_EPOCH"
    ),
    "[Producer clientId=a] Transiting to abortable error state due to org.apache.kafka.common.errors."
    "InvalidTxnStateException: The producer attempted a transactional operation in an invalid state.": (
        "INVALID_TXN_STATE"
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_explain_takes_a_line_of_a_log_for_the_error_that_it_names(line):
    assert explain(line) == explain(LINES[line])


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("ERROR [ReplicaFetcher] Error building remote log auxiliary state for orders-0", "tiersnap runbook"),
        ("org.apache.kafka.common.KafkaException: Received exception when fetching: Unknown broker error", "tiersnap"),
        (
            "org.apache.kafka.server.log.remote.storage.RemoteStorageException: java.lang.IllegalArgumentException: "
            "segmentLeaderEpochs can not be null or empty",
            "tiersnap doctor",
        ),
    ],
)
def test_explain_names_the_next_command_for_a_line_of_a_broker_that_tiers(line, command):
    word = explain(line).word
    assert word.command.startswith(command)
    parse(words_of(word.command))


def test_explain_denies_nothing_twice():
    known = [row["name"] for row in tiersnap("explain").rows if not row["name"].startswith("KIP-")]
    texts = [text for name in known for row in explain(name).rows for text in astuple(row) if type(text) is str]
    clauses = {clause for text in texts for clause in re.split(r"[.;:,]", text)}
    assert len(clauses) > 100
    negations = re.compile(r"\b(not|no|none|never|nothing|nobody|neither|without)\b")
    assert [each for each in clauses if len(negations.findall(each)) > 1] == []


def test_explain_shows_no_application_of_another_release():
    assert [row.releases for row in explain("gap", client="2.4").rows if row.who == "application"] == []
    assert [row.releases for row in explain("gap", client="4.1").rows if row.who == "application"] == ["4.1-4.4"]
