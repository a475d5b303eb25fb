"""The search for hanging transactions in log directories that a broker may write to.

The files change while they are read, so the order of reading matters:

1. Read the partitions.
2. Read `__transaction_state`. A coordinator adds a partition to a transaction before the first write to the partition.
   So if a transaction was open in step 1 and does not include the partition in step 2, the transaction has ended or
   hangs.
3. Read again the partitions of transactions that seem to hang. A transaction that ended meanwhile does not hang.

A transaction hangs only if it is also open on the newest replica of its partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tiersnap.snapshot.exactly_once.log_replay import LogReplay, replay_log
from tiersnap.snapshot.exactly_once.transactions.hanging import JudgedTransaction, judge_transaction, open_transactions
from tiersnap.snapshot.exactly_once.transactions.kinds import PartitionTransaction
from tiersnap.snapshot.exactly_once.transactions.transaction_log import TransactionLog, Watch, read_transaction_log
from tiersnap.snapshot.exactly_once.transactions.transaction_verdict import TransactionVerdict
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.transaction_state import TOPIC
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_partition
from tiersnap.snapshot.log.log_start import LogStarts


@dataclass(frozen=True, slots=True)
class HangingOutcome:
    """The open transactions with their verdicts. `found` has a finding for each damaged or unreadable file."""

    judged: Sequence[JudgedTransaction]
    log: TransactionLog
    found: Sequence[Finding]

    @property
    def verdicts(self) -> Counter[TransactionVerdict]:
        """Return the number of open transactions by verdict."""
        return Counter(each.verdict for each in self.judged)

    @property
    def findings(self) -> list[Finding]:
        """Return all findings. If a verdict is UNKNOWN, include missing partitions of `__transaction_state`."""
        missing = self.log.missing_finding
        if missing is None or not self.verdicts[TransactionVerdict.UNKNOWN]:
            return [*self.found]
        return [*self.found, missing]

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that decide the exit code."""
        yield from self.findings
        if any(verdict.is_hanging for verdict in self.verdicts):
            yield OtherProblem.HANGING_TRANSACTION


@dataclass(frozen=True, slots=True)
class _Replica:
    log_dir: LogDir
    partition: Partition
    is_read: bool  # whether it was read up to its log end
    reach: tuple[int, int]  # newest leader epoch, log end offset
    opened: tuple[PartitionTransaction, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return self.partition.topic, self.partition.partition


def _newest(replicas: Iterable[_Replica]) -> dict[TopicPartition, _Replica]:
    """Return the newest replica of each partition. Replicas that were not read to their end are ignored."""
    newest: dict[TopicPartition, _Replica] = {}
    for each in replicas:
        known = newest.get(each.topic_partition)
        if each.is_read and (known is None or known.reach <= each.reach):
            newest[each.topic_partition] = each
    return newest


def _name(transaction: PartitionTransaction) -> tuple[int, int]:
    return transaction.producer.producer_id, transaction.transaction_start_offset


@dataclass
class HangingSearch:
    """A search for hanging transactions. See `read_transaction_log` and `judge_transaction` for its fields."""

    log_dirs: Sequence[LogDir]  # log directories of one cluster
    partition_count: int | None
    max_transaction_timeout: int
    as_of: int
    check_crc: bool = True
    stops_at_unknown: bool = False
    watch: Watch = iter
    findings: list[Finding] = field(default_factory=list, init=False)  # damage in the replayed partitions
    log_starts: LogStarts = field(default_factory=LogStarts, init=False)  # see ProducerListing

    def judged(self, partitions: Iterable[tuple[LogDir, Partition]]) -> tuple[list[JudgedTransaction], TransactionLog]:
        """Return the open transactions of the partitions with their verdicts, and the transaction log."""
        # Skip `__transaction_state`: it has no producers.
        seen = [self._replica(*each) for each in self.watch(partitions) if self._is_searched(each[1])]
        log = read_transaction_log(
            self.log_dirs,
            partition_count=self.partition_count,
            check_crc=self.check_crc,
            stops_at_unknown=self.stops_at_unknown,
            watch=self.watch,
        )
        newest = _newest(seen)
        judged: list[JudgedTransaction] = []
        for replica in seen:
            judged += self._judge_replica(replica, newest, log)
        return judged, log

    def _judge_replica(
        self, replica: _Replica, newest: Mapping[TopicPartition, _Replica], log: TransactionLog
    ) -> Iterator[JudgedTransaction]:
        """Yield the open transactions of a replica, except those that seemed to hang but ended during the search."""
        judged = [self._judge(each, log) for each in replica.opened]
        hanging = {_name(each.transaction) for each in judged if each.verdict.is_hanging}
        ended = hanging - self._still_hanging(hanging, replica, newest)
        for each in judged:
            if _name(each.transaction) not in ended:
                yield each

    def _still_hanging(
        self, hanging: set[tuple[int, int]], replica: _Replica, newest: Mapping[TopicPartition, _Replica]
    ) -> set[tuple[int, int]]:
        """Return the hanging transactions that are also open on the newest replica, and still open in this log."""
        # If the replica's broker is down, the replica lacks later markers.
        if hanging:
            hanging = hanging.intersection(map(_name, newest[replica.topic_partition].opened))
        if hanging:
            hanging = hanging & self._still_open(replica.log_dir, replica.partition)
        return hanging

    def _judge(self, transaction: PartitionTransaction, log: TransactionLog) -> JudgedTransaction:
        timeout = self.max_transaction_timeout
        return judge_transaction(transaction, log, as_of=self.as_of, max_transaction_timeout=timeout)

    def _is_searched(self, partition: Partition) -> bool:
        if partition.topic == TOPIC or partition.name in self.log_starts.unlocated:
            return False
        return self.log_starts.add(partition) is not None

    def _replica(self, log_dir: LogDir, partition: Partition) -> _Replica:
        replayed = self._replayed(log_dir, partition)
        self.findings += replayed.examination.findings
        epoch = max((epoch for epoch, _ in partition.leader_epochs or ()), default=-1)
        reach, opened = (epoch, replayed.log_end_offset), tuple(open_transactions(replayed))
        return _Replica(log_dir, partition, replayed.entries is not None, reach, opened)

    def _still_open(self, log_dir: LogDir, partition: Partition) -> set[tuple[int, int]]:
        """Read the partition again. Return producer id and start offset of each open transaction."""
        again = read_partition(log_dir.filesystem, partition.path, log_dir.checkpoints)
        return set(map(_name, open_transactions(self._replayed(log_dir, again))))

    def _replayed(self, log_dir: LogDir, partition: Partition) -> LogReplay:
        return replay_log(log_dir.filesystem, partition, check_crc=self.check_crc)
