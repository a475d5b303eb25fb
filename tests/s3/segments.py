"""Closed segments on disk with all that a bundle needs; the bytes mean nothing, the sizes and files do."""

import random
from pathlib import Path

import numpy as np
import pyarrow.fs as pafs

from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    new_segment_id,
)
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.source_file import SourceFile
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.state.producer_state import ENTRY_DTYPE
from tiersnap.snapshot.state.trust import Provenance

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
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
    return SourceFile(pafs.LocalFileSystem(), str(path), len(content))


def make_bundle(
    folder: Path, *, base: int = 1000, end: int = 2000, log_size: int = 10_000, with_transactions: bool = False
) -> SegmentBundle:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{base:020d}"
    return SegmentBundle.build(
        base_offset=base,
        next_base_offset=end,
        max_timestamp=1_700_000_000_000,
        log=source(folder / f"{stem}.log", random.Random(base).randbytes(log_size)),
        offset_index=source(folder / f"{stem}.index", bytes(range(24))),
        time_index=source(folder / f"{stem}.timeindex", bytes(range(100, 112))),
        transaction_index=source(folder / f"{stem}.txnindex", bytes(range(34))) if with_transactions else None,
        leader_epochs=EPOCHS,
        producer_snapshot=trusted(end),
    )


def attempt(bundle: SegmentBundle, *, topic: str = "pay.ments-eu", segment_id: str = "") -> RemoteLogSegmentMetadata:
    remote_id = RemoteLogSegmentId(topic, TOPIC_ID, 7, segment_id or new_segment_id())
    return bundle.metadata(remote_id, broker_id=2, event_timestamp=1_700_000_000_500)
