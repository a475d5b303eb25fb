"""T39 to T61: what a partition answers to a batch, and those of the tables of cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reference import log_builder as lb
from tests.reference.append_cases import append_cases, ask_model, read_log
from tests.reference.command import tiersnap
from tests.reference.coordinator_cases import ERAS, init_cases
from tests.reference.kip952_log import NOW
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERA, BROKER_ERAS, CLIENT_ERAS, Severity
from tiersnap.snapshot.exactly_once.models.produce_reaction import SentBatch, react
from tiersnap.snapshot.exactly_once.simulate.replica_state import entry_batches
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE


def _numbered(name: str) -> str | None:
    """T40 of T40a; None of cases that are no scenario."""
    return name[:3] if name[:1] == "T" and name[1:3].isdigit() else None


def _from_tables() -> None:
    for case in append_cases():

        def check_append(_: Path, case=case) -> None:
            for era in BROKER_ERAS:
                assert (era.name, ask_model(case, era).answer) == (era.name, case.answers[era.name])

        if _numbered(case.number):
            scenario(_numbered(case.number))(check_append)
    for case in init_cases():

        def check_init(_: Path, case=case) -> None:
            for era in ERAS.values():
                found = case.ask(era)
                assert (era.name, found.answer, found.identity) == (era.name, *case.expected(era.name)[:2])

        if _numbered(case.number):
            scenario(_numbered(case.number))(check_init)


_from_tables()


@scenario("T40")
def _(_: Path) -> None:
    offsets = {case.number: ask_model(case, BROKER_ERA["B10"]).first_offset for case in append_cases()}
    assert (offsets["T40a"], offsets["T40b"]) == (41, 36)


@scenario("T43")
def _(_: Path) -> None:
    reactions = [react(Answer.INVALID_PRODUCER_EPOCH, era, SentBatch(), transactional=True) for era in CLIENT_ERAS]
    assert [each.reaction.severity for each in reactions] == [Severity.FATAL] * 3 + [Severity.ABORTABLE] * 3


@scenario("T51")
def _(_: Path) -> None:
    entry, _offset = read_log("e3[2147483645-1]", BROKER_ERA["B10"])
    restarted = snapshot_file.decode(snapshot_file.encode(entries_of((7, 3, 1, 104, 4))))
    assert (entry.last_sequence, entry.batches[0].first_sequence) == (1, 2147483645)
    assert entry_batches(restarted)["first_sequence"].tolist() == [2147483645]


def entries_of(*rows: tuple[int, int, int, int, int], timestamp: int = NOW) -> np.ndarray:
    """(producer id, epoch, last sequence, last offset, offset delta) as entries."""
    return np.array([(*row, timestamp, -1, -1) for row in rows], ENTRY_DTYPE)


@scenario("T59")
def _(tmp_path: Path) -> None:
    emptied = lb.empty_batch(6, 1, 7, 4, control=True, transactional=True)
    write = [lb.data_batch(0, 5, 7, 3, 0, timestamp=NOW), lb.data_batch(5, 1), emptied, lb.data_batch(7, 1)]
    lb.write_partition(tmp_path, "emptied", 0, {0: write}, high_watermark=8)
    ran = tiersnap("simulate", tmp_path, "--now", str(NOW), "--all", "--broker", "4.1")
    assert {row["replica_answer"] for row in ran.rows if row["write"] == "NEXT"} == {"ACCEPT"}
    assert {row["replica_answer"] for row in ran.rows if row["write"] == "BUMPED_EPOCH"} == {"ACCEPT"}
