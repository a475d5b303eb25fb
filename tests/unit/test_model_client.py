"""What Java clients do with errors, case by case (tests/reference/client_cases.txt) and era by era."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.client_eras import CLIENT_ERA, CLIENT_ERAS, Reaction, Severity
from tiersnap.snapshot.models.decision_table import read_table
from tiersnap.snapshot.models.exception_groups import TABLE as GROUPS
from tiersnap.snapshot.models.exception_groups import exception_group
from tiersnap.snapshot.models.produce_reaction import IDEMPOTENT, TRANSACTIONAL, SentBatch, react
from tiersnap.snapshot.models.transaction_reaction import REPAIRS, TABLE, react_to_coordinator, repair_steps

pytestmark = pytest.mark.unit

CASES = read_table((Path(__file__).parents[1] / "reference" / "client_cases.txt").read_text(encoding="utf-8"))
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
        if said:
            assert found.said is {"abortable": Answer.TRANSACTION_ABORTABLE, "fenced": Answer.PRODUCER_FENCED}[said]


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


def test_whatever_changes_the_name_of_a_batch_may_write_it_twice_and_nothing_else():
    renaming = {reaction for reaction in Reaction if reaction.may_duplicate}
    assert renaming == {
        Reaction.RENUMBER, Reaction.BUMP, Reaction.NEW_ID, Reaction.FAIL_NEW_ID, Reaction.FAIL_BUMP
    }  # fmt: skip
    assert all(reaction.next_step and reaction.severity in Severity for reaction in Reaction)


def test_kip_691_wraps_an_error_at_most_once_and_only_what_can_be_aborted():
    for row in GROUPS:
        group = exception_group(Answer(row["error"]))
        assert group.wraps == (1 if group.proposed is Severity.ABORTABLE else 0)


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
