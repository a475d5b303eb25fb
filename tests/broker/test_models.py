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
from tiersnap.snapshot.exactly_once.explain.explain import ERRORS
from tiersnap.snapshot.exactly_once.models.coordinator_state import coordinator_era_of
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, era_of
from tiersnap.snapshot.exactly_once.models.exception_groups import exception_group

pytestmark = pytest.mark.broker

NIGHTLY = [
    pytest.param(version, marks=[pytest.mark.kafka(version), pytest.mark.nightly])
    for version in ("3.9.1", "4.0.0", "4.0.1", "4.2.1", "4.3.1", "4.4.0")
]
EACH_TIME = [pytest.param("4.1.1", marks=pytest.mark.kafka("4.1.1"))]


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


@pytest.mark.nightly
@pytest.mark.kafka("4.1.1")
def test_kafkas_errors_have_the_codes_the_exceptions_and_the_base_classes_of_the_models():
    named = [each for each in ERRORS if each.code is not None]
    classes = compiled(Path(__file__).parent / "oracle" / "GroupOracle.java", "4.1.1")
    groups = ("ApplicationRecoverable", "InvalidConfiguration", "RefreshRetriable", "Retriable")
    bases_of_groups = [f"{group}Exception" for group in groups]

    said = run_java("4.1.1", "GroupOracle", [str(each.error) for each in named], classes=classes).splitlines()
    for each, line in zip(named, said, strict=True):
        error, code, exception, *bases = line.split()
        assert (error, int(code), exception) == (each.error, each.code, each.exception)
        nearest = next((base.removesuffix("Exception") for base in bases if base in bases_of_groups), None)
        group = exception_group(each.error)
        # TransactionAbortableException is a group of its own, and the exception of the error at once.
        if group is not None:
            expected = "TransactionAbortable" if error == "TRANSACTION_ABORTABLE" else nearest
            assert (error, group.kip1050) == (error, expected)
