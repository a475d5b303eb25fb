"""Search for hanging transactions in log directories while a broker may write to them.

The files change while they are read, so the order of reading matters:

1. The partitions.
2. `__transaction_state`. A coordinator names a partition before the first write to it, so by now every transaction that
   was open in step 1 is named, unless it hangs.
3. The partitions of transactions that seem to hang, again. A transaction that ended in between does not hang.

A transaction hangs only if the newest replica of its partition has it open, too.
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
    """Open transactions, judged by a transaction log; `found` are damaged and unreadable files."""

    judged: Sequence[JudgedTransaction]
    log: TransactionLog
    found: Sequence[Finding]

    @property
    def verdicts(self) -> Counter[TransactionVerdict]:
        """Open transactions by verdict."""
        return Counter(each.verdict for each in self.judged)

    @property
    def findings(self) -> list[Finding]:
        """Return the findings; if a verdict depends on missing parts of the transaction log, also that finding."""
        missing = self.log.missing_finding
        is_wanted = self.verdicts[TransactionVerdict.UNKNOWN] and missing is not None
        return [*self.found, *([missing] if is_wanted and missing is not None else [])]

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that decide the exit code."""
        yield from self.findings
        if any(verdict.is_hanging for verdict in self.verdicts):
            yield OtherProblem.HANGING_TRANSACTION


@dataclass(frozen=True, slots=True)
class _Replica:
    log_dir: LogDir
    partition: Partition
    is_read: bool  # up to its log end
    reach: tuple[int, int]  # newest leader epoch, log end
    opened: tuple[PartitionTransaction, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return self.partition.topic, self.partition.partition


def _newest(replicas: Iterable[_Replica]) -> dict[TopicPartition, _Replica]:
    """Return the newest replica of each partition. Replicas that could not be read to their end do not count."""
    read = (each for each in replicas if each.is_read)
    return {each.topic_partition: each for each in sorted(read, key=lambda each: each.reach)}


def _name(transaction: PartitionTransaction) -> tuple[int, int]:
    return transaction.producer.producer_id, transaction.transaction_start_offset


@dataclass
class HangingSearch:
    """One search, with the arguments of `read_transaction_log` and `judge_transaction`."""

    log_dirs: Sequence[LogDir]  # of one cluster
    partition_count: int | None
    max_transaction_timeout: int
    as_of: int
    check_crc: bool = True
    stops_at_unknown: bool = False
    watch: Watch = iter
    findings: list[Finding] = field(default_factory=list, init=False)  # of the partitions that were replayed
    log_starts: LogStarts = field(default_factory=LogStarts, init=False)  # as in ProducerListing

    def judged(self, partitions: Iterable[tuple[LogDir, Partition]]) -> tuple[list[JudgedTransaction], TransactionLog]:
        """Judge the open transactions of these partitions by the transaction log of all directories."""
        # The transaction log itself has no producers.
        seen = [self._replica(*each) for each in self.watch(partitions) if self._is_searched(each[1])]
        log = read_transaction_log(
            self.log_dirs,
            partition_count=self.partition_count,
            check_crc=self.check_crc,
            stops_at_unknown=self.stops_at_unknown,
            watch=self.watch,
        )
        newest = _newest(seen)
        return [each for replica in seen for each in self._judge_replica(replica, newest, log)], log

    def _judge_replica(
        self, replica: _Replica, newest: Mapping[TopicPartition, _Replica], log: TransactionLog
    ) -> Iterator[JudgedTransaction]:
        """Yield the open transactions of a replica, without those that seemed to hang and have ended."""
        judged = [self._judge(each, log) for each in replica.opened]
        hanging = {_name(each.transaction) for each in judged if each.verdict.is_hanging}
        ended = hanging - self._still_hanging(hanging, replica, newest)
        for each in judged:
            if _name(each.transaction) not in ended:
                yield each

    def _still_hanging(
        self, hanging: set[tuple[int, int]], replica: _Replica, newest: Mapping[TopicPartition, _Replica]
    ) -> set[tuple[int, int]]:
        """Return the hanging transactions that are still open on the newest replica, and in the log now."""
        # A replica whose broker is down lacks the markers that were written since.
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
        """Read the partition again; return producer id and start offset of each open transaction."""
        again = read_partition(log_dir.filesystem, partition.path, log_dir.checkpoints)
        return set(map(_name, open_transactions(self._replayed(log_dir, again))))

    def _replayed(self, log_dir: LogDir, partition: Partition) -> LogReplay:
        return replay_log(log_dir.filesystem, partition, check_crc=self.check_crc)
