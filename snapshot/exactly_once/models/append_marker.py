"""The broker's answer to an end-transaction marker.

A coordinator's marker is checked in the order of the rows; a replica applies whatever its leader has. Follows
org.apache.kafka.storage.internals.log.ProducerAppendInfo.appendEndTxnMarker; KIP-1228 is the rule of 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.append import AppendOrigin
from tiersnap.snapshot.exactly_once.models.coordinator_state import LARGEST_EPOCH
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, holding, read_table
from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import EndMarker, ProducerEntry

TABLE = read_table("""
 marker                    | origin      | answer
 older epoch               | COORDINATOR | INVALID_PRODUCER_EPOCH
 older epoch on a replica  | REPLICATION | INVALID_PRODUCER_EPOCH
 no bump, open transaction | COORDINATOR | INVALID_PRODUCER_EPOCH
 older coordinator         | COORDINATOR | TRANSACTION_COORDINATOR_FENCED
 any                       | any         | ACCEPT
""")


@dataclass(frozen=True, slots=True)
class MarkerAnswer:
    """The answer to the coordinator, and the first offset of the transaction that the marker ends, None without one."""

    answer: Answer
    ended_first_offset: int | None = None


def append_marker(
    entry: ProducerEntry | None, marker: EndMarker, era: BrokerEra, *, origin: AppendOrigin = AppendOrigin.COORDINATOR
) -> MarkerAnswer:
    """Answer one marker; `entry` is None if the broker does not know the producer."""
    if entry is None:
        return MarkerAnswer(Answer.ACCEPT)
    row = first_row(TABLE, {"origin": {origin}, "marker": holding(_CONDITIONS, entry, marker, era)})
    answer = Answer[row["answer"]]
    return MarkerAnswer(answer, entry.txn_first_offset if answer is Answer.ACCEPT else None)


def _lacks_bump(entry: ProducerEntry, marker: EndMarker, era: BrokerEra) -> bool:
    if not era.marker_needs_bump or marker.transaction_version < 2 or marker.producer_epoch != entry.producer_epoch:
        return False
    is_tolerated = era.tolerates_last_epoch and marker.producer_epoch == LARGEST_EPOCH
    # Without an open transaction it is a marker that was sent again.
    return entry.txn_first_offset is not None and not is_tolerated


_CONDITIONS: dict[str, Callable[[ProducerEntry, EndMarker, BrokerEra], bool]] = {
    "older epoch": lambda entry, marker, _era: marker.producer_epoch < entry.producer_epoch,
    "older epoch on a replica": lambda entry, marker, era: (
        era.replica_refuses_older_marker and marker.producer_epoch < entry.producer_epoch
    ),
    "no bump, open transaction": _lacks_bump,
    "older coordinator": lambda entry, marker, _era: marker.coordinator_epoch < entry.coordinator_epoch,
}
