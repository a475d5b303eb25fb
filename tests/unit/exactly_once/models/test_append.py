"""The broker's answer to the next batch, case by case and era by era."""

from __future__ import annotations

import pytest

from tests.reference.append_cases import AppendCase, append_cases, ask_model
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.append import SEQUENCES
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERA, BROKER_ERAS, era_of, releases_of
from tiersnap.snapshot.exactly_once.models.producer_entry import (
    NextBatch,
    ProducerEntry,
    next_sequence,
)
from tiersnap.snapshot.exactly_once.models.verification import TABLE, CheckResult, TransactionCheck, verify

pytestmark = pytest.mark.unit

CASES = append_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.number)
def test_a_broker_answers_a_batch_in_every_era_as_the_case_says(case: AppendCase):
    assert {era.name: ask_model(case, era).answer for era in BROKER_ERAS} == case.answers


def test_duplicate_is_answered_with_the_offsets_of_the_oldest_equal_batch():
    case = next(case for case in CASES if case.number == "the oldest of equal batches")
    assert ask_model(case, BROKER_ERA["B12"]).first_offset == 36


def test_the_cases_reach_every_row_of_the_table_of_sequences():
    from tests.reference.append_cases import data, read_log
    from tiersnap.snapshot.exactly_once.models.append import sequence_rule

    reached = set()
    for case in CASES:
        batch = data(case.batch.split()[0])
        for era in BROKER_ERAS:
            if batch is not None and case.origin == "CLIENT":
                entry, _ = read_log(case.log, era)
                begins = batch.transaction_version == 2 and era.speaks_version_2
                reached.add(sequence_rule(entry, batch, era, begins_version_2=begins)[0])
    assert reached == {row["#"] for row in SEQUENCES}


@pytest.mark.parametrize("answer", Answer)
def test_answer_appends_or_is_an_error_as_its_name_says(answer):
    successes = {Answer.NONE, Answer.ACCEPT, Answer.DUPLICATE_ACK}
    assert (answer.appends, answer.is_error) == (answer is Answer.ACCEPT, answer not in successes)


# What comes of the question, of a transaction of version 1 or 2, for a Produce of this version: the error by release.
QUESTIONS = [
    ("VERIFIED", 1, 12, {}),
    ("VERIFIED", 2, 12, {}),
    ("WRONG_PRODUCER_ID", 1, 12, {"3.6": "INVALID_PRODUCER_ID_MAPPING"}),
    ("FENCED", 1, 12, {"3.6": "INVALID_PRODUCER_EPOCH"}),
    ("PARTITION_MISSING", 1, 11, {"3.6": "INVALID_TXN_STATE", "3.8": "TRANSACTION_ABORTABLE"}),
    ("PARTITION_MISSING", 1, 10, {"3.6": "INVALID_TXN_STATE"}),
    ("CONCURRENT", 1, 12, {"3.6": "NOT_ENOUGH_REPLICAS"}),
    ("CONCURRENT", 2, 12, {"3.6": "NOT_ENOUGH_REPLICAS", "4.0": "CONCURRENT_TRANSACTIONS"}),
    ("UNAVAILABLE", 1, 12, {"3.6": "NOT_ENOUGH_REPLICAS"}),
    ("UNAVAILABLE", 2, 12, {"3.6": "NOT_ENOUGH_REPLICAS"}),
    ("ENDED_MEANWHILE", 1, 12, {"3.6": "INVALID_TXN_STATE"}),
]


@pytest.mark.parametrize(("said", "version", "produce", "errors"), QUESTIONS)
def test_what_the_coordinator_says_becomes_a_produce_error_where_a_broker_asks(said, version, produce, errors):
    batch, asked = (
        NextBatch(3, 0, 4, transaction_version=version),
        TransactionCheck(CheckResult[said], produce_version=produce),
    )
    expected = None
    for era in BROKER_ERAS:
        expected = next((Answer[each] for name, each in errors.items() if era_of(name, BROKER_ERAS) is era), expected)
        found = verify(None, batch, era, asked)
        assert (era.name, found.was_asked, found.refusal) == (era.name, era.first >= (3, 6), expected)


def test_every_row_of_the_table_of_questions_is_one_of_these():
    assert {row["said"] for row in TABLE} == {CheckResult[said] for said, *_ in QUESTIONS}


@pytest.mark.parametrize(
    ("version", "is_enabled", "asks"),
    [(0, True, ()), (1, True, ("B7", "B8", "B9")), (1, False, ()), (2, True, ("B7", "B8", "B9")), (2, False, ("B9",))],
)
def test_coordinator_is_asked_about_transactions_and_always_about_those_of_version_2(version, is_enabled, asks):
    batch, asked = (
        NextBatch(3, 0, 4, transaction_version=version),
        TransactionCheck(CheckResult.FENCED, is_enabled=is_enabled),
    )
    eras = [BROKER_ERA[name] for name in ("B6", "B7", "B8", "B9")]
    assert tuple(era.name for era in eras if verify(None, batch, era, asked).was_asked) == asks


@pytest.mark.parametrize(
    ("epoch", "asks"),
    [(3, {"B8": False, "B9": False, "B10": False}), (4, {"B8": False, "B9": True, "B10": True}),
     (2, {"B8": False, "B9": True, "B10": False})],
)  # fmt: skip
def test_open_transaction_spares_the_question_since_4_0_in_its_own_epoch_alone(epoch, asks):
    entry = ProducerEntry(3, txn_first_offset=36)
    batch = NextBatch(epoch, 0, 4, transaction_version=1)
    found = {name: verify(entry, batch, BROKER_ERA[name], TransactionCheck(CheckResult.FENCED)) for name in asks}
    assert {name: each.was_asked for name, each in found.items()} == asks
    # Since 4.1 an older epoch is refused before anybody is asked.
    assert (found["B10"].refusal is Answer.INVALID_PRODUCER_EPOCH) == (epoch != 3)


# The first and the last release of which each is true, None where it goes on.
FLAGS = {
    "forgets_deleted": ("B0", "B3"),
    "stale_epoch_is_fatal": ("B0", "B5"),
    "replica_refuses_older_marker": ("B0", "B3"),
    "marker_moves_timestamp": ("B4", "B12"),
    "verifies": ("B7", "B12"),
    "verifies_offsets": ("B8", "B12"),
    "ongoing_needs_epoch": ("B9", "B12"),
    "speaks_version_2": ("B9", "B12"),
    "checks_epoch_first": ("B10", "B12"),
    "marker_needs_bump": ("B11", "B12"),
    "tolerates_last_epoch": ("B12", "B12"),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_rule_of_brokers_is_that_of_its_releases(flag):
    first, last = (BROKER_ERA[name].first for name in FLAGS[flag])
    assert {era.name for era in BROKER_ERAS if getattr(era, flag)} == {
        era.name for era in BROKER_ERAS if first <= era.first <= last
    }


def test_next_sequence_wraps_to_zero():
    assert (next_sequence(-1), next_sequence(7), next_sequence(2147483647)) == (0, 8, 0)


@pytest.mark.parametrize(
    ("release", "name"),
    [("0.11.0", "B0"), ("1.0.1", "B1"), ("1.1", "B2"), ("2.0.0", "B2"), ("2.0.1", "B3"), ("2.3", "B3"), ("2.4.1", "B4"),
     ("2.6", "B5"), ("3.5.2", "B6"), ("3.7", "B7"), ("3.9.1", "B8"), ("4.0.0", "B9"), ("4.1.1", "B10"), ("4.2", "B11"),
     ("4.4.0", "B12")],
)  # fmt: skip
def test_a_release_belongs_to_the_era_that_began_last_before_it(release, name):
    assert era_of(release, BROKER_ERAS) is BROKER_ERA[name]


@pytest.mark.parametrize("release", ["0.10.2", "latest", ""])
def test_what_is_no_release_with_producers_is_refused(release):
    with pytest.raises(ValueError):
        era_of(release, BROKER_ERAS)


def test_neighbouring_eras_are_said_as_one_range():
    chosen = [BROKER_ERA[name] for name in ("B1", "B2", "B3", "B10", "B12")]
    assert releases_of(chosen, BROKER_ERAS) == "1.0.0-2.3, 4.1, 4.3-4.4"
