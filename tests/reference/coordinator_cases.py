"""What coordinators answer to InitProducerId, case by case (coordinator_cases.txt).

    state, metadata   what is known of the transactional id: producer id, epoch, last epoch, previous producer id, and
                      `pending` where a record is being written; `-`: nothing
    asked             `init -` of a new instance, `init ID EPOCH` of one that names itself
    the eras          the identity of the answer; STALE (INVALID_PRODUCER_EPOCH), FENCED (PRODUCER_FENCED), WAIT
                      (CONCURRENT_TRANSACTIONS), ABORTS (the same, and the ongoing transaction is aborted), ERROR
                      (UNKNOWN_SERVER_ERROR); `=` is what stands left of it

Columns KIP-588 and KIP-890 are what the coordinator of 4.1.1 answers, which a broker test asks again; the others follow
the sources of the releases and the text of KIP-360. A new producer id is always 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    COORDINATOR_ERAS,
    CoordinatorEra,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from tiersnap.snapshot.exactly_once.models.decision_table import read_table
from tiersnap.snapshot.exactly_once.models.end_transaction import CoordinatorAnswer
from tiersnap.snapshot.exactly_once.models.init_producer_id import init_producer_id

NEW_PRODUCER_ID = 11
CASES = read_table(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
ERAS = {era.name: era for era in COORDINATOR_ERAS if era.name in CASES[0]}
_ANSWERS = {
    "STALE": Answer.INVALID_PRODUCER_EPOCH,
    "FENCED": Answer.PRODUCER_FENCED,
    "WAIT": Answer.CONCURRENT_TRANSACTIONS,
    "ABORTS": Answer.CONCURRENT_TRANSACTIONS,
    "ERROR": Answer.UNKNOWN_SERVER_ERROR,
}


@dataclass(frozen=True)
class InitCase:
    """One case; `metadata` is None where the transactional id is unknown."""

    number: str
    metadata: TransactionMetadata | None
    supplied: ProducerIdAndEpoch | None
    words: dict[str, str]

    def expected(self, era: str) -> tuple[Answer, ProducerIdAndEpoch | None, bool]:
        """Answer, identity, and whether the transaction is aborted."""
        word = self.words[era]
        if word in _ANSWERS:
            return _ANSWERS[word], None, word == "ABORTS"
        return Answer.NONE, ProducerIdAndEpoch(*map(int, word.split())), False

    def ask(self, era: CoordinatorEra) -> CoordinatorAnswer:
        """The model's answer."""
        return init_producer_id(self.metadata, self.supplied, era, new_producer_id=NEW_PRODUCER_ID)


def metadata_of(state: str, words: str) -> TransactionMetadata | None:
    if state == "-":
        return None
    producer_id, epoch, last, previous, *pending = words.split()
    return TransactionMetadata(
        int(producer_id),
        int(epoch),
        TransactionState(state),
        last_producer_epoch=int(last),
        previous_producer_id=int(previous),
        is_pending=bool(pending),
    )


def init_cases() -> list[InitCase]:
    cases = []
    for row in CASES:
        _, *identity = row["asked"].split()
        supplied = None if identity == ["-"] else ProducerIdAndEpoch(*map(int, identity))
        metadata = metadata_of(row["state"], row["metadata"])
        cases.append(InitCase(row["#"], metadata, supplied, {era: row[era] for era in ERAS}))
    return cases
