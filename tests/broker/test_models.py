"""The models say what Kafka's own classes say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.oracle.append import append_oracle
from tests.broker.oracle.init import init_oracle
from tests.broker.oracle.java import compiled, run_java
from tests.reference.append_cases import append_cases, ask_model
from tests.reference.coordinator_cases import NEW_PRODUCER_ID, init_cases
from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.broker_eras import BROKER_ERA
from tiersnap.snapshot.models.coordinator_state import (
    KIP_588,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from tiersnap.snapshot.models.end_transaction import completed, end_transaction
from tiersnap.snapshot.models.exception_groups import TABLE, exception_group

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


def record_text(record: TransactionMetadata) -> str:
    """As InitOracle.java prints it."""
    numbers = (record.producer_id, record.producer_epoch, record.last_producer_epoch)
    return f"{record.state} {' '.join(map(str, numbers))} {record.previous_producer_id} {record.next_producer_id}"


def asked_text(metadata: TransactionMetadata | None, supplied: ProducerIdAndEpoch | None) -> str:
    if metadata is None:  # what a coordinator makes of an unknown transactional id before it decides
        metadata = TransactionMetadata(NEW_PRODUCER_ID, -1, TransactionState.EMPTY)
    pending = "pending" if metadata.is_pending else "-"
    numbers = (
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.last_producer_epoch,
        metadata.previous_producer_id,
    )
    identity = "-" if supplied is None else f"{supplied.producer_id} {supplied.producer_epoch}"
    return f"{metadata.state}|{' '.join(map(str, numbers))} {pending}|init {identity}"


@pytest.mark.kafka("4.1.1")
def test_kafkas_coordinator_answers_every_init_producer_id_case_as_the_model_does(tmp_path):
    cases = init_cases()
    answered = init_oracle([asked_text(case.metadata, case.supplied) for case in cases], tmp_path)

    assert len(answered) == len(cases) > 30
    for case, (error, record) in zip(cases, answered, strict=True):
        model = case.ask(KIP_588)
        if model.record is None:
            assert (case.number, error) == (case.number, str(model.answer))
        elif model.record.state is TransactionState.PREPARE_ABORT:
            fence = replace(model.record, state=TransactionState.PREPARE_EPOCH_FENCE)
            assert (case.number, record) == (case.number, f"fence {record_text(fence)}")
        else:
            assert (case.number, error, record) == (case.number, "NONE", record_text(model.record))


@pytest.mark.kafka("4.1.1")
def test_kafkas_coordinator_writes_the_records_of_the_model_when_a_transaction_ends(tmp_path):
    cases = [
        (epoch, commits, version) for epoch in (0, 7, 32765, 32766) for commits in (True, False) for version in (1, 2)
    ]
    lines = [
        f"Ongoing|10 {epoch} -1 -1 -|end {'COMMIT' if commits else 'ABORT'} {version}"
        for epoch, commits, version in cases
    ]

    for case, (_, records) in zip(cases, init_oracle(lines, tmp_path), strict=True):
        epoch, commits, version = case
        ongoing = TransactionMetadata(10, epoch, TransactionState.ONGOING)
        prepared = end_transaction(
            ongoing, ongoing.identity, commit=commits, transaction_version=version, new_producer_id=NEW_PRODUCER_ID
        ).record
        assert (case, records) == (case, f"{record_text(prepared)}; {record_text(completed(prepared))}")


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
