"""The models say what Kafka's own classes say."""

from __future__ import annotations

import pytest

from tests.broker.oracle.append import append_oracle
from tests.reference.append_cases import append_cases, ask_model
from tiersnap.snapshot.models.broker_eras import BROKER_ERA

pytestmark = pytest.mark.broker


@pytest.mark.kafka("4.1.1")
def test_kafkas_partition_answers_every_append_case_as_the_model_does(tmp_path):
    cases = append_cases()
    answered = append_oracle(cases, tmp_path)

    assert len(answered) == len(cases) > 40
    for case, said in zip(cases, answered, strict=True):
        model = ask_model(case, BROKER_ERA["B10"])
        found = case.number, said.answer, said.first_offset, said.state
        assert found == (case.number, str(model.answer), model.first_offset, model.state)
