"""The log that is tiered: the same offsets on two hosts, on one of them in other segments."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tests.reference import log_builder as lb
from tests.reference.model_cluster import CLUSTER_ID
from tests.reference.tiered import LOCAL, folded_snapshots
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.formats.transaction_index import ABORTED_TXN_DTYPE, encode
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
PARTITION = TopicIdPartition("orders", TOPIC_ID, 0)
BASES, ROLLED_LATER = (0, 5, 10, 15), (0, 10, 15)
END = 15
"""Where the closed segments end, and remote storage once all of them are there; exclusive."""
LINEAGE = ((0, 0), (3, 10))
"""(leader epoch, start offset)."""


def epoch_of(offset: int) -> int:
    """The leader epoch under which brokers look for an offset."""
    return max(epoch for epoch, start in LINEAGE if start <= offset)


@dataclass(frozen=True)
class Clone:
    """A log that parted from the right one at a segment: same ids, leader epochs, offsets and sizes, other bytes."""

    parted_at: int
    producer: int = 7
    payload: bytes = b"v"


def _batches(clone: Clone | None) -> dict[int, list[bytes]]:
    def has_parted(offset: int) -> bool:
        return clone is not None and offset >= clone.parted_at

    def data(offset: int, count: int, sequence: int, epoch: int = 0) -> bytes:
        producer, payload, time = 7, b"v", lb.TIMESTAMP
        if clone is not None and has_parted(offset):
            producer, payload, time = clone.producer, clone.payload, time + 1
        return lb.data_batch(offset, count, producer, 0, sequence, timestamp=time, leader_epoch=epoch, payload=payload)

    return {
        0: [data(0, 4, 0), lb.data_batch(4, 1, 8, 0, 0, transactional=True)],
        5: [data(5, 4, 4), lb.marker(9, 8, 0, 0, commit=False, timestamp=lb.TIMESTAMP + has_parted(9))],
        10: [data(10, 5, 8, 3)],
        15: [data(15, 5, 13, 3)],
    }


@cache
def template(bases: tuple[int, ...], clone: Clone | None = None) -> Path:
    """A log directory with the partition, and with all its snapshots."""
    disk = Path(mkdtemp(prefix="protocol-"))
    segments: dict[int, list[bytes]] = {}
    for base, entries in _batches(clone).items():
        at = max(each for each in bases if each <= base)
        segments.setdefault(at, []).extend(entries)
    folder = lb.write_partition(
        disk, "orders", 0, segments, high_watermark=20, indexes=True, topic_id=TOPIC_ID, leader_epochs=list(LINEAGE)
    )
    aborted = np.array([(8, 4, 9, 10)], ABORTED_TXN_DTYPE)
    (folder / f"{max(each for each in bases if each <= 9):020d}.txnindex").write_bytes(encode(aborted))
    # A disk has other partitions, too; this one has nothing to be tiered.
    lb.write_partition(disk, "others", 0, {0: [lb.data_batch(0, 4, 7, 0, 0)]}, high_watermark=4)
    (disk / "meta.properties").write_text(f"#\nversion=1\ncluster.id={CLUSTER_ID}\nnode.id=1\ndirectory.id=x\n")
    for offset, data in folded_snapshots(read_partition(LOCAL, str(folder), Checkpoints())).items():
        (folder / f"{offset:020d}.snapshot").write_bytes(data)
    return disk


@cache
def segment_bytes(base: int, bases: tuple[int, ...] = BASES) -> bytes:
    """The closed segment that begins there."""
    return (template(bases) / "orders-0" / f"{base:020d}.log").read_bytes()


def end_of(base: int, data: bytes) -> int | None:
    """Where a copied segment ends that begins there, exclusive; None if it is no segment of this log."""
    whole = b""
    for each, following in pairwise((*BASES[BASES.index(base) :], END + 1)):
        whole += segment_bytes(each)
        if whole == data:
            return following
    return None


def new_disk(path: Path, bases: tuple[int, ...], snapshots: set[int], clone: Clone | None = None) -> Path:
    """A host's log directory, with the snapshots at these offsets alone."""
    shutil.copytree(template(bases, clone), path)
    for each in (path / "orders-0").glob("*.snapshot"):
        if int(each.stem) not in snapshots:
            each.unlink()
    return path
