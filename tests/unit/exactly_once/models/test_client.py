"""What Java clients do with errors, case by case (tests/reference/client_cases.txt) and era by era."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import read_table
from tiersnap.snapshot.exactly_once.models.eras import CLIENT_ERA, CLIENT_ERAS, Reaction, Severity
from tiersnap.snapshot.exactly_once.models.exception_groups import TABLE as GROUPS
from tiersnap.snapshot.exactly_once.models.exception_groups import Surface, exception_group
from tiersnap.snapshot.exactly_once.models.produce_reaction import IDEMPOTENT, TRANSACTIONAL, SentBatch, react
from tiersnap.snapshot.exactly_once.models.transaction_reaction import (
    REPAIRS,
    TABLE,
    react_to_coordinator,
    repair_steps,
)

pytestmark = pytest.mark.unit

CASES = read_table((Path(__file__).parents[3] / "reference" / "client_cases.txt").read_text(encoding="utf-8"))
# The words of the cases, which are those of Kafka's documentation, in the words of the model.
WORDS = {
    "-": None,
    "SUCCESS": Reaction.SUCCESS,
    "RETRY": Reaction.RETRY,
    "SPLIT": Reaction.SPLIT,
    "RETRY from 0, same epoch": Reaction.RENUMBER,
    "RETRY from 0, next epoch": Reaction.BUMP,
    "RETRY from 0, new id": Reaction.NEW_ID,
    "FAIL": Reaction.FAIL,
    "FAIL, lower": Reaction.FAIL_LOWER,
    "FAIL, new id": Reaction.FAIL_NEW_ID,
    "FAIL, next epoch": Reaction.FAIL_BUMP,
    "ABORT": Reaction.ABORT,
    "ABORT, lower": Reaction.ABORT_LOWER,
    "FATAL": Reaction.FATAL,
    "UNDO": Reaction.UNINITIALIZED,
}
MODES = ("idempotent", "transactional")


def sent(facts: str) -> SentBatch:
    words = facts.split()
    numbers = {name: int(value) for name, _, value in (word.partition("=") for word in words) if value}
    return SentBatch(
        producer_epoch=numbers.get("epoch", 0),
        log_start_offset=numbers.get("start", -1),
        last_acked_offset=numbers.get("acked", -1),
        was_renumbered="renumbered" in words,
        is_next="notnext" not in words,
        has_unresolved="unresolved" in words,
        follows_unresolved="follows" in words,
        has_attempts="exhausted" not in words,
        has_records="single" not in words,
        can_bump="nobump" not in words,
    )


def reacted(row, era):
    if row["mode"] in MODES:
        return react(Answer(row["error"]), era, sent(row["facts"]), transactional=row["mode"] == "transactional")
    return react_to_coordinator(Answer(row["error"]), row["mode"], era, can_bump="nobump" not in row["facts"])


@pytest.mark.parametrize("row", CASES, ids=lambda row: " ".join(f"{row['mode']} {row['error']} {row['facts']}".split()))
def test_a_client_reacts_in_every_era_as_the_case_says(row):
    for era in CLIENT_ERAS:
        word, _, said = row[era.name].partition(" as ")
        found = reacted(row, era)
        assert (era.name, found.reaction) == (era.name, WORDS[word])
        told = {"abortable": Answer.TRANSACTION_ABORTABLE, "fenced": Answer.PRODUCER_FENCED}.get(said)
        assert found.said is (told or (None if row["mode"] in MODES else Answer(row["error"])))


@pytest.mark.parametrize(
    ("table", "modes"),
    [(IDEMPOTENT, ("idempotent",)), (TRANSACTIONAL, ("transactional",)), (TABLE, None)],
    ids=["idempotent", "transactional", "coordinator"],
)
def test_the_cases_reach_every_row_of_a_table(table, modes):
    rows = [row for row in CASES if (row["mode"] in modes if modes else row["mode"] not in MODES)]
    assert {reacted(row, era).rule for row in rows for era in CLIENT_ERAS} == {row["#"] for row in table}


@pytest.mark.parametrize("answer", [Answer.ACCEPT, Answer.DUPLICATE_ACK])
def test_success_is_success_also_where_it_is_one_for_the_second_time(answer):
    assert react(answer, CLIENT_ERA["C5"], SentBatch(), transactional=False).reaction is Reaction.SUCCESS


# Era, whether the coordinator takes an identity, transaction version, last error, requests.
@pytest.mark.parametrize(
    ("era", "takes_identity", "version", "error", "steps"),
    [
        ("C0", True, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn"]),
        ("C1", True, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn"]),
        ("C2", True, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn", "InitProducerId"]),
        ("C3", True, 1, "INVALID_PRODUCER_ID_MAPPING", ["InitProducerId"]),
        ("C3", False, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn"]),
        ("C4", True, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn", "InitProducerId"]),
        ("C4", False, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn"]),
        ("C4", True, 2, "OUT_OF_ORDER_SEQUENCE_NUMBER", ["EndTxn"]),
        ("C5", True, 2, "INVALID_PRODUCER_EPOCH", ["EndTxn"]),
    ],
)
def test_an_abortable_error_is_mended_by_these_requests(era, takes_identity, version, error, steps):
    found = repair_steps(Answer(error), CLIENT_ERA[era], takes_identity=takes_identity, transaction_version=version)
    assert [step.partition("(")[0] for step in found] == steps
    assert len(REPAIRS) == 7


# Reaction, how bad it is for the application, and what is sent next, in words of KIP-360 and of the producer's javadoc.
REACTIONS = [
    ("SUCCESS", "IGNORE", ("goes on", "offset")),
    ("RETRY", "RETRY", ("same batch again",)),
    ("SPLIT", "RETRY", ("smaller batches",)),
    ("RENUMBER", "RETRY", ("sequence 0", "same epoch", "again")),
    ("BUMP", "RETRY", ("next epoch", "sequence 0", "again")),
    ("NEW_ID", "RETRY", ("new producer id", "sequence 0", "again")),
    ("FAIL", "FAIL_BATCH", ("fails the batch", "next one")),
    ("FAIL_LOWER", "FAIL_BATCH", ("fails the batch", "lowers the sequences")),
    ("FAIL_NEW_ID", "FAIL_BATCH", ("fails the batch", "new producer id")),
    ("FAIL_BUMP", "FAIL_BATCH", ("fails the batch", "next epoch from sequence 0")),
    ("ABORT", "ABORTABLE", ("waits for the application to abort the transaction",)),
    ("ABORT_LOWER", "ABORTABLE", ("lowers the sequences", "application to abort")),
    ("FATAL", "FATAL", ("fails everything", "close the producer")),
    ("UNINITIALIZED", "ABORTABLE", ("before initTransactions",)),
]


def test_every_reaction_has_its_severity_and_says_what_is_sent_next():
    assert [name for name, _, _ in REACTIONS] == [reaction.name for reaction in Reaction]
    for name, severity, words in REACTIONS:
        reaction = Reaction[name]
        assert reaction.severity == Severity(severity)
        assert all(word in reaction.next_step for word in words), reaction.next_step


def test_only_what_changes_the_name_of_a_batch_may_write_it_twice():
    assert {reaction for reaction in Reaction if reaction.may_duplicate} == {
        Reaction.RENUMBER, Reaction.BUMP, Reaction.NEW_ID, Reaction.FAIL_NEW_ID, Reaction.FAIL_BUMP
    }  # fmt: skip


# Errors that clients treat alike.
@pytest.mark.parametrize(
    ("mode", "errors"),
    [
        ("transactional", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_VERSION"),
        ("idempotent", "CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNSUPPORTED_VERSION"),
        ("idempotent", "NOT_ENOUGH_REPLICAS REQUEST_TIMED_OUT"),
        ("transactional", "INVALID_PRODUCER_EPOCH PRODUCER_FENCED"),
        ("EndTxn", "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"),
        ("EndTxn", "CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS NOT_ENOUGH_REPLICAS REQUEST_TIMED_OUT"),
        ("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED"),
        ("TxnOffsetCommit", "FENCED_INSTANCE_ID UNKNOWN_MEMBER_ID ILLEGAL_GENERATION"),
    ],
)
def test_errors_of_one_group_are_treated_alike(mode, errors):
    for era in CLIENT_ERAS:
        for facts in ("", "exhausted"):
            found = [reacted({"mode": mode, "error": error, "facts": facts}, era) for error in errors.split()]
            assert len({(each.rule, each.reaction) for each in found}) == 1, (era.name, facts)


@pytest.mark.parametrize(
    ("error", "is_told"),
    [("INVALID_PRODUCER_EPOCH", {"C3": "PRODUCER_FENCED", "C2": "INVALID_PRODUCER_EPOCH"}),
     ("PRODUCER_FENCED", {"C3": "PRODUCER_FENCED", "C5": "PRODUCER_FENCED"}),
     ("INVALID_TXN_STATE", {"C5": "INVALID_TXN_STATE"})],
)  # fmt: skip
def test_epoch_errors_of_coordinators_say_fenced_since_2_7(error, is_told):
    """Statements 2.16 and 2.17."""
    for era, told in is_told.items():
        assert react_to_coordinator(Answer(error), "EndTxn", CLIENT_ERA[era]).said is Answer(told)


# Statements 2.5 to 2.21 of KIP-691: errors that the next transactional call alone throws, for no produce response has
# them; those that it wanted fatal, and those that are retried; what is of a record, and what of the delivery.
CALL = {
    "PRODUCER_FENCED", "INVALID_TXN_STATE", "GROUP_AUTHORIZATION_FAILED", "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS", "OPERATION_NOT_ATTEMPTED",
}  # fmt: skip
FATAL = {
    "PRODUCER_FENCED", "INVALID_TXN_STATE", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION",
    "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "UNKNOWN_SERVER_ERROR",
}  # fmt: skip
RETRIED = {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"}
FAILURES = {
    "MESSAGE_REJECTED": {"MESSAGE_TOO_LARGE"},
    "DELIVERY_FAILED": {
        "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNSUPPORTED_VERSION", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "DELIVERY_TIMED_OUT", "UNKNOWN_SERVER_ERROR",
    },
    "TRANSACTION_FAILED": {
        "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE",
    },
}  # fmt: skip
# The nearest base class in 4.1.1, which a broker test asks of the jar.
KIP_1050 = {
    "ApplicationRecoverable": {
        "INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION",
    },
    "InvalidConfiguration": {
        "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION",
    },
    "Retriable": {
        "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "DELIVERY_TIMED_OUT", "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
    },
    "RefreshRetriable": {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"},
    "TransactionAbortable": {"TRANSACTION_ABORTABLE"},
}  # fmt: skip


def names_of(sets: dict[str, set[str]], error: str) -> str | None:
    return next((name for name, errors in sets.items() if error in errors), None)


# A duplicate is a success to the application.
TOLD = {row["error"] for row in CASES} - {"DUPLICATE_SEQUENCE_NUMBER"}
TOLD = TOLD.union(CALL, FATAL, RETRIED, *FAILURES.values(), *KIP_1050.values())


def test_every_error_that_is_told_has_one_group():
    assert sorted(row["error"] for row in GROUPS) == sorted(TOLD)


@pytest.mark.parametrize("error", sorted(TOLD))
def test_error_is_told_as_the_two_kips_say(error):
    group = exception_group(Answer(error))
    assert group.surface is (Surface.CALL if error in CALL else Surface.BOTH)
    severity = Severity.FATAL if error in FATAL else Severity.RETRY if error in RETRIED else Severity.ABORTABLE
    assert group.proposed is severity
    assert (group.failure_type, group.kip1050) == (names_of(FAILURES, error), names_of(KIP_1050, error))


def test_kip_691_wraps_an_error_at_most_once_and_only_what_can_be_aborted():
    for row in GROUPS:
        group = exception_group(Answer(row["error"]))
        assert group.wraps == (1 if group.proposed is Severity.ABORTABLE else 0)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_duplicate_is_a_success_also_when_no_attempt_is_left(is_transactional):
    for era in ("C1", "C5"):
        found = react(
            Answer.DUPLICATE_SEQUENCE_NUMBER, CLIENT_ERA[era], sent("exhausted"), transactional=is_transactional
        )
        assert found.reaction is Reaction.SUCCESS


REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


@pytest.mark.parametrize("request_name", REQUESTS)
def test_only_a_lost_producer_depends_on_whether_its_epoch_can_be_raised(request_name):
    """TransactionManager asks `canBumpEpoch` of these two errors alone."""
    for error in set(Answer) - {Answer.INVALID_PRODUCER_ID_MAPPING, Answer.UNKNOWN_PRODUCER_ID}:
        for era in CLIENT_ERAS:
            either = [react_to_coordinator(error, request_name, era, can_bump=it) for it in (False, True)]
            assert either[0] == either[1], error


@pytest.mark.parametrize("request_name", REQUESTS[:-1])
def test_transaction_is_aborted_when_a_coordinator_asks_for_it(request_name):
    """KIP-890: each handler of TransactionManager has TRANSACTION_ABORTABLE."""
    for era in ("C3", "C4", "C5"):
        found = react_to_coordinator(Answer.TRANSACTION_ABORTABLE, request_name, CLIENT_ERA[era])
        assert found.reaction is Reaction.ABORT


# Statement 2.25: abortable errors are thrown again as TxnCorruptedException, fatal ones as TaskMigratedException.
@pytest.mark.parametrize(
    ("error", "thrown"),
    [("OUT_OF_ORDER_SEQUENCE_NUMBER", "TxnCorruptedException"), ("PRODUCER_FENCED", "TaskMigratedException"),
     ("CONCURRENT_TRANSACTIONS", None)],
)  # fmt: skip
def test_kip_691_has_streams_throw_abortable_and_fatal_errors_anew(error, thrown):
    assert exception_group(Answer(error)).streams_action == thrown


@pytest.mark.parametrize(
    "error",
    ["TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "FENCED_INSTANCE_ID", "ILLEGAL_GENERATION"],
)
def test_kip_691_wanted_fatal_what_clients_still_treat_as_abortable(error):
    request = "AddPartitionsToTxn" if error == "TOPIC_AUTHORIZATION_FAILED" else "TxnOffsetCommit"
    assert exception_group(Answer(error)).proposed is Severity.FATAL
    assert react_to_coordinator(Answer(error), request, CLIENT_ERA["C5"]).reaction is Reaction.ABORT


def test_an_error_that_no_kip_speaks_of_has_no_group():
    assert exception_group(Answer.INVALID_REQUEST) is None
