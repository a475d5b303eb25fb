"""What brokers answer to one batch, case by case (append_cases.txt).

    log     what the partition holds: data batches e3[0-4] (epoch 3, sequences 0 to 4), of a transaction t3[0-4],
            markers m3c5 (epoch 3, coordinator epoch 5), `restart`: all that a snapshot keeps, @36: the offset of what
            follows
    batch   what comes next: one of these, or v3[0-4] of a transaction of version 2, M3c5 a marker of one; `lowest=7`: a
            question for sequence 7 is still under way, `lowest=7v` one of version 2; `ended`: the transaction ended
            between question and append
    B0 ...  ok, ack (the offsets of the first time), OOO (OUT_OF_ORDER_SEQUENCE_NUMBER), NO_ID (UNKNOWN_PRODUCER_ID),
            DUP (DUPLICATE_SEQUENCE_NUMBER), STALE (INVALID_PRODUCER_EPOCH), TXN (INVALID_TXN_STATE), FENCED
            (TRANSACTION_COORDINATOR_FENCED); `=` is what stands left of it

Columns B10 to B12 are what UnifiedLog of 4.1.1, 4.2.1, 4.3.1 and 4.4.0 answers, which broker tests ask again; the
others were read in the sources of the releases. T39 and the like are the scenarios' numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.reference.producer_entry import after_batch, after_marker, after_restart
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.append import AppendOrigin, append, append_marker
from tiersnap.snapshot.exactly_once.models.decision_table import read_table
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import EndMarker, NextBatch, ProducerEntry
from tiersnap.snapshot.exactly_once.models.verification import CheckResult, PendingVerification, TransactionCheck

CASES = read_table(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
_ANSWERS = {
    "ok": Answer.ACCEPT,
    "ack": Answer.DUPLICATE_ACK,
    "OOO": Answer.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "NO_ID": Answer.UNKNOWN_PRODUCER_ID,
    "DUP": Answer.DUPLICATE_SEQUENCE_NUMBER,
    "STALE": Answer.INVALID_PRODUCER_EPOCH,
    "TXN": Answer.INVALID_TXN_STATE,
    "FENCED": Answer.TRANSACTION_COORDINATOR_FENCED,
}
_BATCH = re.compile(r"([etv])(-?\d+)\[(-?\d+)-(-?\d+)]")
_MARKER = re.compile(r"([mM])(\d+)c(\d+)")


@dataclass(frozen=True)
class AppendCase:
    """One case and the answer of each era by name."""

    number: str
    log: str
    origin: AppendOrigin
    batch: str
    answers: dict[str, Answer]


@dataclass(frozen=True)
class Asked:
    """What the model says: answer, offset of the first record of an appended or acknowledged batch, state after it."""

    answer: Answer
    first_offset: int
    entry: ProducerEntry | None

    @property
    def state(self) -> str:
        """As AppendOracle.java prints it."""
        if self.entry is None:
            return ""
        opened = -1 if self.entry.txn_first_offset is None else self.entry.txn_first_offset
        entry = self.entry
        return f"{entry.producer_epoch} {entry.last_sequence} {entry.coordinator_epoch} {opened}"


def append_cases() -> list[AppendCase]:
    return [
        AppendCase(
            row["#"],
            row["log"],
            AppendOrigin(row["origin"]),
            row["batch"],
            {era.name: _ANSWERS[row[era.name]] for era in BROKER_ERAS},
        )
        for row in CASES
    ]


def data(word: str) -> NextBatch | None:
    match = _BATCH.fullmatch(word)
    if match is None:
        return None
    kind, *numbers = match.groups()
    return NextBatch(*map(int, numbers), transaction_version="etv".index(kind))


def marker(word: str) -> EndMarker | None:
    match = _MARKER.fullmatch(word)
    if match is None:
        return None
    return EndMarker(int(match[2]), int(match[3]), transaction_version="mM".index(match[1]) + 1)


def read_log(log: str, era: BrokerEra) -> tuple[ProducerEntry | None, int]:
    """The producer as a broker knows it after the log, and the log's end."""
    entry, offset = None, 0
    for word in log.split():
        batch, end_marker = data(word), marker(word)
        if word.startswith("@"):
            offset = int(word[1:])
        elif word == "restart":
            entry = None if entry is None else after_restart(entry)
        elif batch is not None:
            entry = after_batch(entry, batch, era, base_offset=offset)
            offset = entry.batches[-1].last_offset + 1
        elif end_marker is not None:
            entry, offset = after_marker(entry, end_marker, era), offset + 1
        else:
            raise ValueError(word)
    return entry, offset


def _pending(word: str, batch: NextBatch) -> PendingVerification:
    version = 2 if word.endswith("v") else max(1, batch.transaction_version)
    return PendingVerification(int(word.rstrip("v")), version)


def ask_model(case: AppendCase, era: BrokerEra) -> Asked:
    entry, offset = read_log(case.log, era)
    word, *circumstances = case.batch.split()
    end_marker = marker(word)
    if end_marker is not None:
        answer = append_marker(entry, end_marker, era, origin=case.origin).answer
        is_appended = answer is Answer.ACCEPT
        after = after_marker(entry, end_marker, era) if is_appended else entry
        return Asked(answer, offset if is_appended else -1, after)
    batch = data(word)
    pending = next((_pending(each[7:], batch) for each in circumstances if each.startswith("lowest=")), None)
    said = CheckResult.ENDED_MEANWHILE if "ended" in circumstances else CheckResult.VERIFIED
    verification = TransactionCheck(said, pending=pending)
    found = append(entry, batch, era, origin=case.origin, verification=verification)
    if found.answer is Answer.ACCEPT:
        return Asked(found.answer, offset, after_batch(entry, batch, era, base_offset=offset))
    return Asked(found.answer, found.duplicate_of.first_offset if found.duplicate_of else -1, entry)
