"""The broker's answer to the next batch, case by case and era by era."""

from __future__ import annotations

import pytest

from tests.reference.append_cases import AppendCase, append_cases, ask_model
from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.append import SEQUENCES
from tiersnap.snapshot.models.broker_eras import BROKER_ERA, BROKER_ERAS, era_of, releases_of
from tiersnap.snapshot.models.producer_entry import NextBatch
from tiersnap.snapshot.models.verification import TABLE, Said, Verification, verify

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
    from tiersnap.snapshot.models.append import sequence_rule

    reached = set()
    for case in CASES:
        batch = data(case.batch.split()[0])
        for era in BROKER_ERAS:
            if batch is not None and case.origin == "CLIENT":
                entry, _ = read_log(case.log, era)
                begins = batch.transaction_version == 2 and era.speaks_version_2
                reached.add(sequence_rule(entry, batch, era, begins_version_2=begins)[0])
    assert reached == {row["#"] for row in SEQUENCES}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['said']}, {row['request']}")
def test_what_the_coordinator_says_becomes_a_produce_error_only_where_a_broker_asks(row):
    version = 2 if row["request"] == "version 2" else 1
    produce = 10 if row["request"] == "produce v10" else 12
    said = Verification(Said(row["said"]), produce_version=produce)
    batch = NextBatch(3, 0, 4, transaction_version=version)
    for era in BROKER_ERAS:
        found = verify(None, batch, era, said)
        assert found.was_asked == (era.first >= (3, 6))
        if not found.was_asked or said.said is Said.VERIFIED:
            assert found.refusal is None
        elif said.said is Said.PARTITION_MISSING:
            is_known = era.first >= (3, 8) and produce >= 11
            assert found.refusal is (Answer.TRANSACTION_ABORTABLE if is_known else Answer.INVALID_TXN_STATE)
        elif said.said is Said.CONCURRENT:
            is_retried = version == 2 and era.first >= (4, 0)
            assert found.refusal is (Answer.CONCURRENT_TRANSACTIONS if is_retried else Answer.NOT_ENOUGH_REPLICAS)
        else:
            assert (
                found.refusal
                is {
                    Said.WRONG_PRODUCER_ID: Answer.INVALID_PRODUCER_ID_MAPPING,
                    Said.FENCED: Answer.INVALID_PRODUCER_EPOCH,
                    Said.UNAVAILABLE: Answer.NOT_ENOUGH_REPLICAS,
                    Said.ENDED_MEANWHILE: Answer.INVALID_TXN_STATE,
                }[said.said]
            )


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
