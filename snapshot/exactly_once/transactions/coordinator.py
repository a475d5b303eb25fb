"""The newest state of every transactional id, from the records of `__transaction_state`.

A coordinator that takes over a partition reads it from the start and keeps the last record of every id
(TransactionStateManager.loadTransactionMetadata). This module does the same. A tombstone deletes the id.

The partition of an id follows from its hash (TransactionStateManager.partitionFor, Utils.abs). The leader of that
partition is the coordinator:

    hash       = Java's String.hashCode: h = 31 * h + c over the UTF-16 code units, in 32 signed bits with wrap-around
    partition  = |hash| % partition count, where |-2147483648| counts as 0

The log does not contain the partition count (transaction.state.log.num.partitions, 50 by default).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from tiersnap.snapshot.errors import CorruptTransactionStateError, UnknownVersionError
from tiersnap.snapshot.exactly_once.transactions.kinds import KnownTransaction, RecordPlace
from tiersnap.snapshot.formats.transaction_state import TransactionLogValue, decode_key, decode_value
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.records import LogRecord


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A record of `__transaction_state`."""

    place: RecordPlace
    transactional_id: str
    value: TransactionLogValue | None  # None in a tombstone
    problem: Finding | None = None  # failure to decode the value; None if it was decoded


def read_record(record: LogRecord, partition: int, path: str) -> TransactionRecord | Finding:
    """Decode a record of the segment at `path`. Return a finding if the transactional id cannot be decoded."""
    try:
        transactional_id = decode_key(record.key)
    except (UnknownVersionError, CorruptTransactionStateError) as error:
        return _finding(error, record, path)
    value, problem = None, None
    try:
        value = None if record.value is None else decode_value(record.value)
    except (UnknownVersionError, CorruptTransactionStateError) as error:
        problem = _finding(error, record, path, f" of {transactional_id!r}")
    place = RecordPlace(partition, record.offset, record.timestamp)
    return TransactionRecord(place, transactional_id, value, problem)


def _finding(
    error: UnknownVersionError | CorruptTransactionStateError, record: LogRecord, path: str, whose: str = ""
) -> Finding:
    is_unknown = isinstance(error, UnknownVersionError)
    kind = FindingKind.UNKNOWN_VERSION if is_unknown else FindingKind.CORRUPT_TRANSACTION_STATE
    return Finding(kind, path, record.position, f"offset {record.offset}{whose}: {error.message}")


@dataclass(frozen=True, slots=True)
class CoordinatorStates:
    """The newest states of all transactional ids that were read."""

    known: dict[str, KnownTransaction] = field(default_factory=dict)  # newest state by transactional id, ascending
    # Ids whose newest record cannot be decoded. `known` may have an earlier state of them. Brokers since 4.3 use the
    # earlier state if the newest record has an unknown version.
    unreadable: frozenset[str] = frozenset()
    # Partition of `__transaction_state` by transactional id, including ids with a tombstone or an unreadable record.
    found_in: dict[str, int] = field(default_factory=dict)
    # The states in `known` by current producer id.
    by_producer: dict[int, KnownTransaction] = field(default_factory=dict)

    def of_producer(self, producer_id: int) -> KnownTransaction | None:
        """Return the transactional id whose current producer id is `producer_id`.

        As in kafka-transactions.sh, previous and next producer ids do not count.
        """
        return self.by_producer.get(producer_id)

    def formerly_of(self, producer_id: int) -> KnownTransaction | None:
        """Return the transactional id that had the producer id before, or will have it next (KIP-890)."""
        for each in self.known.values():
            if producer_id in (each.value.previous_producer_id, each.value.next_producer_id):
                return each
        return None


def newest_states(records: Iterable[TransactionRecord]) -> CoordinatorStates:
    """Return the newest state of each transactional id.

    If an id has records in several partitions, use the partition with the highest number. There, use the last record.
    """
    newest: dict[str, TransactionRecord] = {}
    readable: dict[str, TransactionRecord] = {}
    for record in records:
        _keep_newer(newest, record)
        if record.problem is None:
            _keep_newer(readable, record)
    unreadable: set[str] = set()
    partitions: dict[str, int] = {}
    for name, record in newest.items():
        partitions[name] = record.place.partition
        if record.problem is not None:
            unreadable.add(name)
    known = dict(_without_tombstones(readable))
    by_producer_id = {each.value.producer_id: each for each in known.values()}
    return CoordinatorStates(known, frozenset(unreadable), partitions, by_producer_id)


def _without_tombstones(records: Mapping[str, TransactionRecord]) -> Iterator[tuple[str, KnownTransaction]]:
    """Yield transactional ids and their states, ascending. Ids whose record is a tombstone are skipped."""
    for name, each in sorted(records.items()):
        if each.value is not None:
            yield name, KnownTransaction(name, each.place, each.value)


def _keep_newer(kept: dict[str, TransactionRecord], record: TransactionRecord) -> None:
    before = kept.get(record.transactional_id)
    if before is None or _order(before) <= _order(record):
        kept[record.transactional_id] = record


def _order(record: TransactionRecord) -> tuple[int, int]:
    return record.place.partition, record.place.offset


_MASK = 0xFFFFFFFF
_SMALLEST = -(1 << 31)
# No cluster has more partitions of this topic, and a search can try every count up to this one.
MOST_PARTITIONS = 1000
_SAMPLE = 4000


def string_hash(text: str) -> int:
    """Return the result of Java's String.hashCode, -2^31 .. 2^31 - 1."""
    hashed = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        hashed = 31 * hashed + (high << 8 | low) & _MASK
    return hashed - (1 << 32) if hashed >> 31 else hashed


def positive_hash(text: str) -> int:
    """Return Kafka's `Utils.abs` of the hash, 0 .. 2^31 - 1."""
    hashed = string_hash(text)
    return 0 if hashed == _SMALLEST else abs(hashed)


def partition_of(transactional_id: str, partition_count: int) -> int:
    """Return the partition of a transactional id, 0 .. partition_count - 1."""
    return positive_hash(transactional_id) % partition_count


def likely_counts(found_in: Mapping[str, int], at_least: int) -> list[int]:
    """Return the partition counts that fit the greatest number of ids, ascending.

    A count fits an id if the id's hash belongs to the partition in which the id was found. With two or three ids,
    usually only one count fits all of them. Without ids, every count from `at_least` to MOST_PARTITIONS is returned.

    Args:
        found_in: partition by transactional id. Only the first few thousand are used.
    """
    sample = dict(islice(found_in.items(), _SAMPLE))
    hashes = np.array(list(map(positive_hash, sample)), np.int64)
    partitions = np.array(list(sample.values()), np.int64)
    counts = range(max(at_least, 1), max(at_least, MOST_PARTITIONS) + 1)
    right = {count: int((hashes % count == partitions).sum()) for count in counts}
    most = max(right.values())
    return [count for count, number in right.items() if number == most]
