"""The content of `__transaction_state` in log directories, and the partitions that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tiersnap.snapshot.errors import CorruptTransactionStateError, UsageError
from tiersnap.snapshot.exactly_once.transactions.coordinator import (
    MOST_PARTITIONS,
    CoordinatorStates,
    TransactionRecord,
    likely_counts,
    newest_states,
    partition_of,
    read_record,
)
from tiersnap.snapshot.exactly_once.transactions.kinds import KnownTransaction
from tiersnap.snapshot.formats.transaction_state import TOPIC, TransactionLogValue, TransactionStatus, has_known_version
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.lock import started_at
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_partition, split_folder_name
from tiersnap.snapshot.log.records import LogRecord, SegmentRecords
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.units import count_of

Watch = Callable[[Iterable[tuple[LogDir, Partition]]], Iterable[tuple[LogDir, Partition]]]
_SHOWN = 20
# A partition with one of these findings may have unread states. UNKNOWN_VERSION is excluded: such a record is no state.
_HIDES_STATES = frozenset(FindingKind) - {
    FindingKind.CORRUPT_CHECKPOINT,
    FindingKind.BAD_FILE_NAME,
    FindingKind.UNFINISHED_SWAP,
    FindingKind.UNKNOWN_VERSION,
}


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """The partitions of `__transaction_state` in log directories."""

    states: CoordinatorStates  # newest state of each transactional id
    # The given count, or the smallest count that explains the partitions of most ids. None if no partition was found.
    partition_count: int | None
    is_count_sure: bool  # whether the count was given, or no other count explains as many ids
    missing: tuple[int, ...]  # partitions that were not found, or not read to their end, ascending; at most 1,000
    read: frozenset[int]  # partitions that were read to their end
    findings: tuple[Finding, ...]
    path: str
    # ms by partition: the timestamp of its newest record, and the start of a running broker with a replica.
    written_at: Mapping[int, int] = field(default_factory=dict)
    running_since: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Return whether `states` has every transactional id of the cluster."""
        return self.is_count_sure and not self.missing and not self.states.unreadable

    def is_current(self, transactional_id: str) -> bool:
        """Return whether all records of the transactional id were read."""
        if transactional_id in self.states.unreadable or not self.partition_count:
            return False
        found = self.states.found_in.get(transactional_id)
        if found is not None:
            return found in self.read
        return self.is_count_sure and partition_of(transactional_id, self.partition_count) in self.read

    def work_after(self, partition: int, since: int, as_of: int) -> int:
        """Return how long (ms) the partition surely had a coordinator after `since`, 0 if unknown.

        The partition had a coordinator until its last record was written. It also has a coordinator while a broker with
        a replica runs, because the cluster elects a leader.
        """
        written = self.written_at.get(partition, since) - since
        started = self.running_since.get(partition)
        running = 0 if started is None else as_of - max(started, since)
        return max(written, running, 0)

    @property
    def missing_finding(self) -> Finding | None:
        """Return the finding about missing partitions, or about an unsure partition count. None if there is neither."""
        if self.partition_count is None:
            said = f"the log directories have no partition of {TOPIC}"
        elif self.missing:
            named = ", ".join(map(str, self.missing[:_SHOWN]))
            if len(self.missing) > _SHOWN:
                named += ", …"
            count = count_of(self.partition_count, "partition")
            said = (
                f"{TOPIC} has {count}, some of which are not in the log directories or were not read to their end: "
                f"{named}"
            )
        elif not self.is_count_sure:
            said = (
                f"the log directories have too few transactional ids to infer how many partitions {TOPIC} has: give "
                "--partition-count"
            )
        else:
            return None
        return Finding(FindingKind.MISSING_PARTITION, self.path, -1, said)

    def with_partitions(self, selection: Selection) -> list[KnownTransaction]:
        """Return the transactions that include a selected partition. If the selection has no condition, return all."""
        known = self.states.known.values()
        if selection == Selection():
            return list(known)
        return [each for each in known if _is_selected(each.value, selection)]

    def described(self, transactional_id: str) -> KnownTransaction:
        """Return the newest state of a transactional id.

        Raises:
            UsageError: the id is unknown.
            CorruptTransactionStateError: its newest record cannot be decoded.
        """
        known = self.states.known.get(transactional_id)
        if known is not None:
            return known
        if transactional_id in self.states.unreadable:
            raise CorruptTransactionStateError(
                f"the newest record of {transactional_id!r} cannot be read",
                hint="tiersnap transactions list LOGDIR",
            )
        if self.is_current(transactional_id):
            raise UsageError(
                f"no transactional id {transactional_id!r}: the id never existed, or has expired",
                hint="tiersnap transactions list LOGDIR",
            )
        missing = "" if self.missing_finding is None else f": {self.missing_finding.message}"
        raise UsageError(
            f"{transactional_id!r} was not found, but only a part of {TOPIC} was read{missing}",
            hint="give the log directories with all partitions of __transaction_state, and --partition-count",
        )


def _is_selected(value: TransactionLogValue, selection: Selection) -> bool:
    return any(value.has_partition(at) and selection.takes(at) for at in value.partitions or ())


def missing_of(log_dirs: Sequence[LogDir], log: TransactionLog) -> list[Finding]:
    """Return the finding about missing partitions of `__transaction_state`.

    If nothing is missing, or if the log directories have no partition of any topic, return no finding.
    """
    missing = log.missing_finding
    if missing is None or not any(each.folders for each in log_dirs):
        return []
    return [missing]


def read_transaction_log(
    log_dirs: Sequence[LogDir],
    *,
    partition_count: int | None = None,
    check_crc: bool = True,
    stops_at_unknown: bool = False,
    watch: Watch = iter,
) -> TransactionLog:
    """Read every partition of `__transaction_state` in the log directories.

    Args:
        partition_count: transaction.state.log.num.partitions. If it is None, infer the count from the partitions in
            which the transactional ids are found.
        stops_at_unknown: whether to stop at a partition's first value of an unknown version, as brokers before 4.3 do.
        watch: function that passes the partitions through and reports progress.
    """
    found = [
        read_states(log_dir.filesystem, partition, check_crc=check_crc, stops_at_unknown=stops_at_unknown)
        for log_dir, partition in watch(_partitions(log_dirs))
    ]
    return _log_of(found, log_dirs, partition_count)


def _log_of(found: Sequence[ReadStates], log_dirs: Sequence[LogDir], partition_count: int | None) -> TransactionLog:
    records: list[TransactionRecord] = []
    findings: list[Finding] = []
    written_at: dict[int, int] = {}
    numbers: set[int] = set()
    hidden: set[int] = set()
    for each in found:
        records += each.records
        findings += each.findings
        written_at[each.number] = each.written_at
        numbers.add(each.number)
        if each.hides_states:
            hidden.add(each.number)
    states = newest_states(records)
    count, is_count_sure = partition_count, True
    if count is None:
        count, is_count_sure = _infer_count(states, numbers)
    paths = ", ".join(each.path for each in log_dirs)
    return TransactionLog(
        states=states,
        partition_count=count,
        is_count_sure=is_count_sure,
        missing=_missing(numbers, hidden, count or 0),
        read=frozenset(numbers - hidden),
        findings=(*findings, *_misplaced(states, numbers, count, paths)),
        path=paths,
        written_at=written_at,
        running_since=dict(_running_since(log_dirs)),
    )


def _infer_count(states: CoordinatorStates, numbers: set[int]) -> tuple[int | None, bool]:
    """Return the likely partition count (None without partitions), and whether it is the only likely one."""
    likely = likely_counts(states.found_in, max(numbers, default=-1) + 1)
    return likely[0] if numbers else None, len(likely) == 1


def _missing(numbers: set[int], hidden: set[int], count: int) -> tuple[int, ...]:
    """Return the partitions that were not found, or not read to their end. `count` is the topic's partition count."""
    # A wrong count, from an option or a folder name, may be billions. So at most MOST_PARTITIONS are listed.
    absent = islice((each for each in range(count) if each not in numbers), MOST_PARTITIONS)
    return tuple(sorted(hidden.union(absent)))


def _partitions(log_dirs: Sequence[LogDir]) -> Iterator[tuple[LogDir, Partition]]:
    for log_dir in log_dirs:
        for path, _ in _folders(log_dir):
            yield log_dir, read_partition(log_dir.filesystem, path, log_dir.checkpoints)


def _running_since(log_dirs: Sequence[LogDir]) -> Iterator[tuple[int, int]]:
    """Yield partitions on disks of running brokers, with the start of the broker (ms)."""
    for log_dir in log_dirs:
        since = started_at(Path(log_dir.path)) if log_dir.filesystem.is_local else None
        if since is not None:
            for _, number in _folders(log_dir):
                yield number, since


def _folders(log_dir: LogDir) -> Iterator[tuple[str, int]]:
    """Yield path and number of each partition folder of `__transaction_state`."""
    for folder in log_dir.folders:
        topic, number = split_folder_name(folder) or ("", -1)
        if topic == TOPIC:
            yield f"{log_dir.path}/{folder}", number


@dataclass
class ReadStates:
    """The newest records of one partition, and its damage."""

    number: int
    records: list[TransactionRecord] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    hides_states: bool = False  # whether damage may hide further states
    written_at: int = -1  # ms, timestamp of its newest record


def read_states(
    filesystem: FileSystem, partition: Partition, *, check_crc: bool = True, stops_at_unknown: bool = False
) -> ReadStates:
    """Decode the newest records of each key: the newest with a known version, and the newest with an unknown version.

    Older records are not decoded: a partition has far more records than keys. See `read_transaction_log` for arguments.
    """
    read = ReadStates(partition.partition, findings=list(partition.findings))
    problems: list[Finding] = []
    for record, path in _newest_records(filesystem, partition, read, check_crc, stops_at_unknown):
        decoded = read_record(record, partition.partition, path)
        if isinstance(decoded, Finding):
            read.findings.append(decoded)
        else:
            read.records.append(decoded)
            problems += _problems_of(decoded, record, path)
    read.hides_states = not partition.segments or any(each.finding_kind in _HIDES_STATES for each in read.findings)
    # A bad record hides only its own id, and `CoordinatorStates.unreadable` has that id.
    read.findings += sorted(problems, key=lambda each: (each.path, each.position))
    return read


def _newest_records(
    filesystem: FileSystem, partition: Partition, read: ReadStates, check_crc: bool, stops_at_unknown: bool
) -> list[tuple[LogRecord, str]]:
    """Return the newest records with the paths of their segments.

    Set `read.written_at` to the newest timestamp of all records. Append damage to `read.findings`.
    """
    newest: dict[bytes | None, tuple[LogRecord, str]] = {}
    unknown: dict[bytes | None, tuple[LogRecord, str]] = {}
    for segment in partition.segments:
        records = SegmentRecords(filesystem, segment, check_crc=check_crc)
        for record in records:
            kept = newest if has_known_version(record.value) else unknown
            kept[record.key] = record, segment.log.path
            read.written_at = max(read.written_at, record.timestamp)
            if unknown and stops_at_unknown:
                break
        read.findings += records.findings
        if unknown and stops_at_unknown:
            break
    return [*newest.values(), *unknown.values()]


def _problems_of(decoded: TransactionRecord, record: LogRecord, path: str) -> Iterator[Finding]:
    if decoded.problem is not None:
        yield decoded.problem
    elif decoded.value is not None and (why := impossible(decoded.value)):
        message = f"offset {record.offset} of {decoded.transactional_id!r}: {why}"
        yield Finding(FindingKind.CORRUPT_TRANSACTION_STATE, path, record.position, message)


def impossible(value: TransactionLogValue) -> str:
    """Return why no coordinator writes this state, "" if a coordinator may write it."""
    if value.transaction_state is not TransactionStatus.EMPTY and value.start_timestamp < 0:
        return f"a transaction in state {value.transaction_state} has no start time"
    if value.transaction_state is TransactionStatus.EMPTY and value.partitions:
        return "Empty with partitions"
    return ""


def _misplaced(states: CoordinatorStates, numbers: set[int], count: int | None, path: str) -> Iterator[Finding]:
    """Yield findings about partition numbers from `count` on, and about transactional ids in the wrong partition."""
    if count is None:
        return
    for number in sorted(numbers):
        if number >= count:
            message = f"{TOPIC}-{number} exists in the log directories, but --partition-count is {count}"
            yield Finding(FindingKind.WRONG_PARTITION, path, -1, message)
    wrong: dict[int, list[str]] = {}
    for transactional_id, partition in states.found_in.items():
        if partition_of(transactional_id, count) != partition:
            wrong.setdefault(partition, []).append(transactional_id)
    for partition, ids in sorted(wrong.items()):
        message = (
            f"{TOPIC}-{partition} has {count_of(len(ids), 'transactional id')} of other partitions: with "
            f"{count_of(count, 'partition')} in the topic, {ids[0]!r} belongs to "
            f"{TOPIC}-{partition_of(ids[0], count)}. The topic has a different number of partitions, or the number was "
            "raised: give the number as --partition-count"
        )
        yield Finding(FindingKind.WRONG_PARTITION, path, -1, message)
