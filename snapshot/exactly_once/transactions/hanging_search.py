"""The search for hanging transactions in log directories that a broker may be writing to meanwhile.

What is on disk changes while it is read, so the order matters. First the partitions, then `__transaction_state`: a
coordinator names a partition before anything is written to it, so whatever was seen open is known by then. Then the
partitions of what seems to hang once more: a transaction that has ended in between does not hang. One that was open
before and after did not have its partition named in between, whatever order it was all written in.

Of several replicas the newest one speaks: one whose broker is down does not have the markers that were written since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    """Open transactions, judged by a transaction log; `found` is what is damaged or may not be read."""

    judged: Sequence[JudgedTransaction]
    log: TransactionLog
    found: Sequence[Finding]

    @property
    def verdicts(self) -> Counter[TransactionVerdict]:
        """Open transactions by verdict."""
        return Counter(each.verdict for each in self.judged)

    @property
    def findings(self) -> list[Finding]:
        """Return the findings, and what the log lacks if a verdict depends on it."""
        missing = self.log.missing_finding
        is_wanted = self.verdicts[TransactionVerdict.UNKNOWN] and missing is not None
        return [*self.found, *([missing] if is_wanted and missing is not None else [])]

    def problems(self) -> Iterator[Problem]:
        """Yield what was met."""
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
        newest: dict[TopicPartition, _Replica] = {}
        for of in sorted((each for each in seen if each.is_read), key=lambda each: each.reach):
            newest[of.partition.topic, of.partition.partition] = of
        log = read_transaction_log(
            self.log_dirs,
            partition_count=self.partition_count,
            check_crc=self.check_crc,
            stops_at_unknown=self.stops_at_unknown,
            watch=self.watch,
        )
        judged = []
        looked_again: dict[str, set[tuple[int, int]]] = {}
        for replica, transaction in ((one, each) for one in seen for each in one.opened):
            each = judge_transaction(
                transaction, log, as_of=self.as_of, max_transaction_timeout=self.max_transaction_timeout
            )
            if each.verdict.is_hanging:
                path, name = replica.partition.path, _name(transaction)
                if name not in map(_name, newest[transaction.producer.topic_partition].opened):
                    continue
                if path not in looked_again:
                    looked_again[path] = self._still_open(replica.log_dir, replica.partition)
                if name not in looked_again[path]:
                    continue
            judged.append(each)
        return judged, log

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
        """Return producer id and start offset of each transaction open in the partition by now."""
        again = read_partition(log_dir.filesystem, partition.path, log_dir.checkpoints)
        return set(map(_name, open_transactions(self._replayed(log_dir, again))))

    def _replayed(self, log_dir: LogDir, partition: Partition) -> LogReplay:
        return replay_log(log_dir.filesystem, partition, check_crc=self.check_crc)
