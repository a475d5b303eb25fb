"""The entries of all snapshots of a log directory: those of Kafka's classes, and those of the compiled fold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.reference import log_builder as lb
from tests.reference.agreeing import Rows, read_log
from tests.reference.local_replay import local_replay
from tests.reference.random_log import write_random_partition
from tests.reference.recovered import DATA
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.replay.expiry import Expiry

Snapshot = tuple[str, str, int, int]  # log directory, topic, partition, snapshot offset
Entries = dict[Snapshot, Rows]  # rows of ENTRY_DTYPE, ascending producer id; a snapshot without producers is left out

BUNDLED = sorted(map(str, DATA.glob("*/logs")))
KEEP_ALL = Expiry(None, now=0)


def kafkas_entries(log_dirs: Iterable[str]) -> Entries:
    """What Kafka's own classes folded of bundled logs."""
    entries: Entries = {}
    for log_dir in log_dirs:
        for path in Path(log_dir).parent.glob("expected/*/*.snapshot"):
            topic, _, partition = path.parent.name.rpartition("-")
            rows = snapshot_file.decode(path.read_bytes()).tolist()
            entries[log_dir, topic, int(partition), int(path.stem)] = rows
    return {snapshot: rows for snapshot, rows in entries.items() if rows}


def kernels_entries(log_dir: str, expiry: Expiry = KEEP_ALL) -> Entries:
    """What the compiled fold says at the ends that batches tell of; entries of magic 0 and 1 are no batches."""
    entries: Entries = {}
    for partition in open_log_dir(log_dir).partitions():
        _, boundaries = local_replay(LOCAL, partition)
        folded = {each.offset: each.entries for each in boundaries}
        for offset, largest_timestamp in ends_of_batches(partition).items():
            # Between that offset and the next boundary lie no batches.
            rows = folded[min(each for each in folded if each >= offset)]
            snapshot = log_dir, partition.topic, partition.partition, offset
            entries[snapshot] = expiry.live(rows, largest_timestamp).tolist()
    return {snapshot: rows for snapshot, rows in entries.items() if rows}


def ends_of_batches(partition: Partition) -> dict[int, int]:
    """Return the snapshot offset at the end of each segment with batches -> their largest timestamp."""
    read = [(base, segment.batches) for base, segment in read_log(Path(partition.path)) if segment.batches]
    bases = [base for base, _ in read[1:]]
    log_end = [batches[-1].base_offset + batches[-1].last_offset_delta + 1 for _, batches in read[-1:]]
    largest = [max(batch.max_timestamp for batch in batches) for _, batches in read]
    return dict(zip([*bases, *log_end], largest, strict=True))


def write_random_logs(log_dir: Path, count: int) -> str:
    """Write the logs that tests/broker/test_oracle_random_logs.py gives to Kafka's classes, and one of offset commits.

    A group coordinator writes transactional offset commits without a sequence.
    """
    for seed in range(count):
        write_random_partition(log_dir, f"seed-{seed}", seed)
    commits = [lb.data_batch(0, 3, 7, 0, transactional=True), lb.marker(3, 7, 0, 1, commit=True)]
    lb.write_partition(log_dir, "commits", 0, {0: commits}, indexes=True, high_watermark=4)
    return str(log_dir)
