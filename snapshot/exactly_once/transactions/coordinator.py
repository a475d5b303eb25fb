"""The coordinators' newest state of every transactional id, out of the records of `__transaction_state`.

A coordinator that takes over a partition reads it from its start and keeps the last record of every id; a tombstone
takes the id away (TransactionStateManager.loadTransactionMetadata). So does this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiersnap.snapshot.errors import CorruptTransactionStateError, UnknownVersionError
from tiersnap.snapshot.formats.transaction_state import TransactionLogValue, decode_key, decode_value
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.records import LogRecord


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A record of `__transaction_state`.

    Attributes:
        partition: where it was found.
        timestamp: ms, the record's.
        value: None in a tombstone.
        problem: why there is no value although there are bytes, None otherwise.
    """

    partition: int
    offset: int
    timestamp: int
    transactional_id: str
    value: TransactionLogValue | None
    problem: Finding | None = None


def read_record(record: LogRecord, partition: int, path: str) -> TransactionRecord | Finding:
    """Decode a record; a finding if not even the transactional id can be read.

    Args:
        path: of the segment, for findings.
    """
    try:
        transactional_id = decode_key(record.key)
    except (UnknownVersionError, CorruptTransactionStateError) as error:
        return _finding(error, record, path)
    value, problem = None, None
    try:
        value = None if record.value is None else decode_value(record.value)
    except (UnknownVersionError, CorruptTransactionStateError) as error:
        problem = _finding(error, record, path, f" of {transactional_id!r}")
    return TransactionRecord(partition, record.offset, record.timestamp, transactional_id, value, problem)


def _finding(
    error: UnknownVersionError | CorruptTransactionStateError, record: LogRecord, path: str, whose: str = ""
) -> Finding:
    is_unknown = isinstance(error, UnknownVersionError)
    kind = FindingKind.UNKNOWN_VERSION if is_unknown else FindingKind.CORRUPT_TRANSACTION_STATE
    return Finding(kind, path, record.position, f"offset {record.offset}{whose}: {error.message}")


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """The newest readable state of a transactional id, and the record it is from."""

    transactional_id: str
    partition: int
    offset: int
    timestamp: int
    value: TransactionLogValue


@dataclass(frozen=True, slots=True)
class CoordinatorStates:
    """What coordinators know.

    Attributes:
        known: newest state by transactional id, ascending.
        unreadable: ids whose newest record cannot be read. The state in `known`, if there is one, is an earlier one,
            which a broker from 4.3 on takes where the newest is of an unknown version.
        found_in: partition by transactional id, tombstones and unreadable records counted.
        by_producer: the states in `known` by their current producer id.
    """

    known: dict[str, KnownTransaction] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    found_in: dict[str, int] = field(default_factory=dict)
    by_producer: dict[int, KnownTransaction] = field(default_factory=dict)

    def of_producer(self, producer_id: int) -> KnownTransaction | None:
        """Return the transactional id whose current producer id this is, as kafka-transactions looks one up."""
        return self.by_producer.get(producer_id)

    def formerly_of(self, producer_id: int) -> KnownTransaction | None:
        """Return the transactional id that had this producer id before, or is to get it next (KIP-890)."""
        return next(
            (
                each
                for each in self.known.values()
                if producer_id in (each.value.previous_producer_id, each.value.next_producer_id)
            ),
            None,
        )


def newest_states(records: Iterable[TransactionRecord]) -> CoordinatorStates:
    """Return the newest states; records in any order, the highest partition and offset wins."""
    newest: dict[str, TransactionRecord] = {}
    readable: dict[str, TransactionRecord] = {}
    for record in records:
        _keep_newer(newest, record)
        if record.problem is None:
            _keep_newer(readable, record)
    known = {
        name: KnownTransaction(name, each.partition, each.offset, each.timestamp, each.value)
        for name, each in sorted(readable.items())
        if each.value is not None
    }
    return CoordinatorStates(
        known,
        frozenset(name for name, each in newest.items() if each.problem is not None),
        {name: each.partition for name, each in newest.items()},
        {each.value.producer_id: each for each in known.values()},
    )


def _keep_newer(kept: dict[str, TransactionRecord], record: TransactionRecord) -> None:
    before = kept.get(record.transactional_id)
    if before is None or (before.partition, before.offset) <= (record.partition, record.offset):
        kept[record.transactional_id] = record
