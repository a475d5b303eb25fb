"""T62 to T75: restarts with a snapshot, what clients make of errors, and KIP-952's example."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reference.command import tiersnap
from tests.reference.coordinator_eras import (
    KIP_588,
    KIP_890,
)
from tests.reference.kip952_log import NOW, write_kip952_log
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    TransactionMetadata,
    TransactionState,
)
from tiersnap.snapshot.exactly_once.models.end_transaction import completed, end_transaction, fence_abort
from tiersnap.snapshot.exactly_once.models.eras import CLIENT_ERA, CLIENT_ERAS, Reaction, Severity
from tiersnap.snapshot.exactly_once.models.exception_groups import exception_group
from tiersnap.snapshot.exactly_once.models.produce_reaction import SentBatch, react
from tiersnap.snapshot.exactly_once.models.transaction_reaction import react_to_coordinator, repair_steps
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.producer_fold import live_entries

DAY = 86_400_000
ONGOING = TransactionMetadata(10, 7, TransactionState.ONGOING, last_producer_epoch=6)


@scenario("T63")
def _(_: Path) -> None:
    assert snapshot_file.encode(np.empty(0, ENTRY_DTYPE)).hex() == "000148674bc700000000"


@scenario("T64")
def _(_: Path) -> None:
    rows = [
        (1, 0, 0, 0, 0, NOW - DAY, -1, -1),
        (2, 0, 0, 1, 0, NOW - DAY, -1, 1),
        (3, 0, 0, 2, 0, NOW - DAY + 1, -1, -1),
    ]
    kept = live_entries(np.array(rows, ENTRY_DTYPE), as_of=NOW, expiration=DAY)
    assert kept["producer_id"].tolist() == [2, 3]


def unknown(era: str, *, transactional: bool, log_start: int, epoch: int = 0) -> Reaction:
    batch = SentBatch(log_start_offset=log_start, last_acked_offset=99, producer_epoch=epoch)
    return react(Answer.UNKNOWN_PRODUCER_ID, CLIENT_ERA[era], batch, transactional=transactional).reaction


@scenario("T65")
def _(_: Path) -> None:
    assert unknown("C1", transactional=False, log_start=100) is Reaction.RENUMBER


@scenario("T66")
def _(_: Path) -> None:
    assert unknown("C1", transactional=False, log_start=99) is Reaction.FAIL_NEW_ID


@scenario("T67")
def _(_: Path) -> None:
    assert unknown("C2", transactional=False, log_start=99) is Reaction.BUMP
    assert unknown("C2", transactional=False, log_start=99, epoch=32767) is Reaction.NEW_ID


@scenario("T68")
def _(_: Path) -> None:
    assert unknown("C2", transactional=True, log_start=100) is Reaction.RENUMBER
    assert unknown("C2", transactional=True, log_start=99) is Reaction.ABORT
    steps = repair_steps(Answer.UNKNOWN_PRODUCER_ID, CLIENT_ERA["C2"])
    assert steps == ("EndTxn(abort)", "InitProducerId(producer id, epoch)")


@scenario("T69")
def _(_: Path) -> None:
    timed_out = completed(fence_abort(ONGOING, KIP_588, new_producer_id=11).record)
    found = react(Answer.INVALID_PRODUCER_EPOCH, CLIENT_ERA["C3"], SentBatch(), transactional=True)
    assert found.reaction is Reaction.ABORT
    ended = end_transaction(
        timed_out, ONGOING.identity, KIP_588, commit=False, transaction_version=1, new_producer_id=11
    )
    assert ended.answer is Answer.PRODUCER_FENCED
    assert react_to_coordinator(ended.answer, "EndTxn", CLIENT_ERA["C3"]).reaction is Reaction.FATAL
    by_version_2 = completed(fence_abort(ONGOING, KIP_890, new_producer_id=11).record)
    ended = end_transaction(
        by_version_2, ONGOING.identity, KIP_890, commit=False, transaction_version=2, new_producer_id=11
    )
    assert (ended.answer, ended.identity) == (Answer.NONE, (10, 8))


@scenario("T69b")
def _(_: Path) -> None:
    found = [
        react_to_coordinator(Answer.INVALID_PRODUCER_ID_MAPPING, "AddPartitionsToTxn", era).reaction
        for era in CLIENT_ERAS
    ]
    fatal, abort = Reaction.FATAL, Reaction.ABORT
    assert found == [fatal, fatal, abort, abort, fatal, fatal]
    steps = [repair_steps(Answer.INVALID_PRODUCER_ID_MAPPING, CLIENT_ERA[era]) for era in ("C2", "C3")]
    assert steps == [("InitProducerId(producer id, epoch)",)] * 2


@scenario("T69c")
def _(_: Path) -> None:
    error = Answer.TOPIC_AUTHORIZATION_FAILED
    assert react_to_coordinator(error, "AddPartitionsToTxn", CLIENT_ERA["C5"]).reaction is Reaction.ABORT
    assert exception_group(error).proposed is Severity.FATAL


@scenario("T69d")
def _(_: Path) -> None:
    gap = SentBatch(has_unresolved=True)
    found = [
        react(Answer.DELIVERY_TIMED_OUT, CLIENT_ERA[era], gap, transactional=True).reaction for era in ("C1", "C3")
    ]
    assert found == [Reaction.FATAL, Reaction.ABORT]


def kip952(tmp_path: Path, *words: str, **options):
    write_kip952_log(tmp_path, **options)
    return tiersnap("simulate", tmp_path, "--from", "empty", "--at", "200", "--now", str(NOW), *words)


@scenario("T70")
def _(tmp_path: Path) -> None:
    ran = kip952(tmp_path, "--producers", "--broker", "4.1")
    assert {row["producer_id"] for row in ran.rows if not row["known"]} == {1, 2}
    assert {row["producer_id"] for row in ran.rows} == {1, 2}


@scenario("T71")
def _(tmp_path: Path) -> None:
    (row,) = (
        row for row in kip952(tmp_path).rows if row["write"] == "RETRY_OF_LAST" and row["replica_answer"] == "ACCEPT"
    )
    assert (row["brokers"], row["writes"], row["doubles"]) == ("0.11-4.4", 2, True)


@scenario("T72")
def _(tmp_path: Path) -> None:
    found = kip952(tmp_path, "--producers", "--broker", "2.3", first_sequence=5).rows
    first = {row["write"]: row for row in found if row["producer_id"] == 1}
    assert first["RETRY_OF_LAST"]["replica_answer"] == "UNKNOWN_PRODUCER_ID"
    since = tiersnap(
        "simulate", tmp_path, "--from", "empty", "--at", "200", "--now", str(NOW), "--producers", "--broker", "3.9"
    )
    assert since.row(producer_id=1, write="RETRY_OF_LAST")["doubles"]


@scenario("T75")
def _(tmp_path: Path) -> None:
    found = kip952(tmp_path, "--producers", "--broker", "4.1", again=250).rows
    of_first = {row["write"]: row["replica_answer"] for row in found if row["producer_id"] == 1}
    # It knows the producer again, and less of it: NEXT and RETRY_OF_LAST are answered as the leader does.
    assert of_first == {
        "RETRY_OF_OLDER": "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "RESET_TO_ZERO": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    }
