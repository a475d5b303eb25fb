"""Closed segments on disk with all that a bundle needs; the payloads mean nothing."""

import random
from pathlib import Path

import numpy as np

from tests.reference import log_builder as lb
from tests.reference.indexes_in_memory import check_indexes
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    new_segment_id,
)
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.record_batch import HEADER_LENGTH
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.formats.transaction_index import ONGOING_TXN_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.repair.index_check import FoundIndexes

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
MAX_TIMESTAMP = 1_700_000_000_000
EPOCHS = ((0, 0), (3, 500), (4, 1500), (9, 5000))


def snapshot_bytes(producers: int = 2, offset: int = 1000) -> bytes:
    entries = np.zeros(producers, ENTRY_DTYPE)
    entries["producer_id"] = np.arange(producers)
    entries["last_offset"] = offset - 1
    entries["current_txn_first_offset"] = -1
    return snapshot_file.encode(entries)


def trusted(offset: int, producers: int = 2) -> TrustedSnapshot:
    return TrustedSnapshot(offset, snapshot_bytes(producers, offset), Provenance.COMPUTED)


def source(path: Path, content: bytes) -> SourceFile:
    path.write_bytes(content)
    return SourceFile(LOCAL, str(path), len(content))


def log_bytes(base: int, end: int, size: int, *, with_transactions: bool = False, seed: int = 0) -> bytes:
    """A segment of exactly `size` bytes: ten batches of random payload, the last with its leader's marker before it.

    Each was written under the leader epoch that EPOCHS has at its base offset.
    """
    marker = b""
    if with_transactions:
        marker = lb.marker(base + 100, 3, 0, 0, commit=False, leader_epoch=_epoch_at(base + 100))
    step = (end - base) // 10
    payload = (size - len(marker)) // 10 - HEADER_LENGTH
    parts, random_bytes = [], random.Random(base + seed).randbytes
    for number in range(10):
        first = base + number * step + (number == 1 and bool(marker))
        last = end - 1 if number == 9 else base + number * step + step - 1
        is_last = number == 9
        records = random_bytes(size - sum(map(len, parts)) - HEADER_LENGTH if is_last else payload)
        transactional = {"producer_id": 3, "epoch": 0, "attributes": lb.TRANSACTIONAL} if marker and number == 0 else {}
        parts.append(
            lb.raw_batch(
                first,
                last_offset_delta=last - first,
                record_count=last - first + 1,
                records=records,
                max_timestamp=MAX_TIMESTAMP - 9 + number,
                leader_epoch=_epoch_at(first),
                **transactional,
            )
        )
        if marker and number == 0:
            parts.append(marker)
    return b"".join(parts)


def _epoch_at(offset: int) -> int:
    return max(epoch for epoch, start in EPOCHS if start <= offset)


def make_segment(
    folder: Path, *, base: int = 1000, end: int = 2000, log_size: int = 10_000, with_transactions: bool = False
) -> SegmentBundle:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{base:020d}"
    log = log_bytes(base, end, log_size, with_transactions=with_transactions)
    indexes = check_indexes(log, base, FoundIndexes(), np.empty(0, ONGOING_TXN_DTYPE))
    transactions = indexes.transaction_index
    return SegmentBundle(
        base_offset=base,
        next_base_offset=end,
        max_timestamp=MAX_TIMESTAMP,
        log=source(folder / f"{stem}.log", log),
        offset_index=source(folder / f"{stem}.index", indexes.offset_index),
        time_index=source(folder / f"{stem}.timeindex", indexes.time_index),
        transaction_index=None if transactions is None else source(folder / f"{stem}.txnindex", transactions),
        leader_epochs=EPOCHS,
        producer_snapshot=trusted(end),
        open_transactions=(),
    )


def attempt(segment: SegmentBundle, *, topic: str = "pay.ments-eu", segment_id: str = "") -> RemoteLogSegmentMetadata:
    remote_id = RemoteLogSegmentId(topic, TOPIC_ID, 7, segment_id or new_segment_id())
    return segment.metadata(remote_id, broker_id=2, event_timestamp=1_700_000_000_500)
