"""The producers at the log ends of partitions, as in DescribeProducers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.log_replay import LogReplay, replay_log
from tiersnap.snapshot.exactly_once.transactions.kinds import ListedProducer, PartitionProducer
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_properties
from tiersnap.snapshot.log.log_start import LogStarts, with_stated
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, open_log_dirs, selected_of
from tiersnap.snapshot.producer_fold import live_entries

_NOBODY = np.empty(0, ENTRY_DTYPE)


def entries_at_end(replayed: LogReplay) -> np.ndarray:
    """Return the entries at the log end (ENTRY_DTYPE, ascending producer id), empty if the log cannot be replayed."""
    if replayed.entries is None:
        return _NOBODY
    return replayed.entries


def partition_producer(partition: Partition, entry: np.void) -> PartitionProducer:
    """Return the producer that an entry (ENTRY_DTYPE) at the log end describes."""
    names = ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence", "last_offset", "timestamp")
    return PartitionProducer(partition.topic, partition.partition, *(int(entry[name]) for name in names))


@dataclass
class ProducerListing:
    """A listing of the producers of several partitions. `findings` grows while the partitions are read."""

    producer_expiration: int | None  # ms, producer.id.expiration.ms; None if producers never expire
    as_of: int  # epoch ms
    check_crc: bool = True
    findings: list[Finding] = field(default_factory=list)  # damaged and unreadable files
    expired: int = 0  # number of producers that are omitted because brokers have removed them
    # Partitions with an unknown log start are skipped: if the log begins in remote storage, a snapshot may be wrong.
    log_starts: LogStarts = field(default_factory=LogStarts)

    def producers(self, partitions: Iterable[tuple[LogDir, Partition]]) -> Iterator[ListedProducer]:
        """Yield the producers that brokers still have, ascending by producer id in each partition."""
        for log_dir, partition in partitions:
            if self.log_starts.add(partition) is None:
                continue
            replayed = replay_log(log_dir.filesystem, partition, check_crc=self.check_crc)
            self.findings.extend(replayed.examination.findings)
            entries = entries_at_end(replayed)
            live = live_entries(entries, as_of=self.as_of, expiration=self.producer_expiration)
            self.expired += entries.size - live.size
            for entry in live:
                start = int(entry["current_txn_first_offset"])
                open_from = start if start >= 0 else None
                yield ListedProducer(partition_producer(partition, entry), open_from)


def open_of_one_cluster(uris: Sequence[str], log_starts: Mapping[TopicPartition, int]) -> tuple[NamedLogDir, ...]:
    """Open the log directories of one cluster. A host with several disks has several log directories.

    Args:
        log_starts: log start offsets by --log-start; see with_stated.

    Raises:
        UsageError: the directories are of several clusters, so their producer ids are unrelated.
    """
    opened = with_stated(open_log_dirs(uris), log_starts)
    properties = [read_properties(each.log_dir.filesystem, each.log_dir.path) for each in opened]
    clusters = {each.cluster_id for each in properties if each is not None}
    if len(clusters) > 1:
        raise UsageError(
            f"{', '.join(uris)}: the log directories belong to {len(clusters)} clusters: {', '.join(sorted(clusters))}",
            hint="give the log directories of only one cluster",
        )
    return opened


def partitions_of(log_dirs: Sequence[NamedLogDir], selection: Selection) -> Iterator[tuple[LogDir, Partition]]:
    """Yield the selected partitions with their log directories. See `selected_of` for errors."""
    for each, partition in selected_of(log_dirs, selection):
        yield each.log_dir, partition
