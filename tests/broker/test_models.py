"""The models say what Kafka's own classes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.oracle.append import append_oracle
from tests.broker.oracle.coordinator import coordinator_oracle
from tests.broker.oracle.java import compiled, run_java
from tests.reference.append_cases import append_cases, ask_model
from tests.reference.coordinator_answers import golden_answers
from tests.reference.coordinator_questions import case_questions, random_questions, two_phase_questions
from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.broker_eras import BROKER_ERAS, era_of
from tiersnap.snapshot.models.coordinator_state import coordinator_era_of
from tiersnap.snapshot.models.exception_groups import TABLE, exception_group

pytestmark = pytest.mark.broker

NIGHTLY = [
    pytest.param(version, marks=[pytest.mark.kafka(version), pytest.mark.nightly])
    for version in ("3.9.1", "4.0.0", "4.0.1", "4.2.1", "4.4.0")
]
EACH_TIME = [pytest.param(version, marks=pytest.mark.kafka(version)) for version in ("4.1.1", "4.3.1")]


@pytest.mark.parametrize("release", [each for each in EACH_TIME + NIGHTLY if each.values[0] >= "4.1"])
def test_kafkas_partition_answers_every_append_case_as_the_model_does(release, tmp_path):
    cases = append_cases()
    answered = append_oracle(release, cases, tmp_path)

    assert len(answered) == len(cases) > 40
    for case, said in zip(cases, answered, strict=True):
        model = ask_model(case, era_of(release, BROKER_ERAS))
        found = case.number, said.answer, said.first_offset, said.state
        assert found == (case.number, str(model.answer), model.first_offset, model.state)


@pytest.mark.parametrize("release", EACH_TIME + NIGHTLY)
def test_coordinator_of_each_release_answers_any_state_as_the_model_does(release, tmp_path):
    kept = [(question, answer) for question, name, answer in golden_answers() if name == release]
    versions = (1,) if release == "3.9.1" else (1, 2)
    further = [
        question
        for version in versions
        for question in (*case_questions(version), *random_questions(7, 3000, transaction_version=version))
    ]
    asked = [*(question for question, _ in kept), *further, *(two_phase_questions() if release >= "4.1" else ())]
    answered = coordinator_oracle(release, asked, tmp_path)

    assert answered[: len(kept)] == [answer for _, answer in kept]
    for question, said in zip(asked, answered, strict=True):
        era = coordinator_era_of(release, question.server_version)
        assert (question.line, question.answered(era)) == (question.line, said)


@pytest.mark.kafka("4.1.1")
def test_kafkas_exceptions_have_the_base_classes_that_the_groups_name():
    errors = [row["error"] for row in TABLE if row["error"] != Answer.DELIVERY_TIMED_OUT]  # no code of the protocol
    classes = compiled(Path(__file__).parent / "oracle" / "GroupOracle.java", "4.1.1")
    groups = ("ApplicationRecoverable", "InvalidConfiguration", "RefreshRetriable", "Retriable")
    named = [f"{group}Exception" for group in groups]

    for line in run_java("4.1.1", "GroupOracle", errors, classes=classes).splitlines():
        error, *bases = line.split()
        nearest = next((base.removesuffix("Exception") for base in bases if base in named), None)
        group = exception_group(Answer(error)).kip1050
        # TransactionAbortableException is a group of its own, and the exception of the error at once.
        assert (error, group) == (error, "TransactionAbortable" if error == "TRANSACTION_ABORTABLE" else nearest)
