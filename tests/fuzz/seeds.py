"""Real bytes to begin with: files of brokers from tests/data, and what this version writes itself."""

from __future__ import annotations

import struct

from tests.reference import log_builder as lb
from tests.reference import transaction_state as ts
from tests.reference.recovered import DATA
from tiersnap.remote_storage.layouts import rsm_manifest
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata import metadata_records
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.snapshot.collected.listing import CollectedDecode, Listing
from tiersnap.snapshot.tables.listed import ListedPartition

ID = "lZ6vvmajTWKDBUTV6SQAtQ"
METADATA = RemoteLogSegmentMetadata(
    id=RemoteLogSegmentId("orders", ID, 3, "adh9f8BMS4anaUnD8KX1mg"),
    start_offset=0,
    end_offset=1000,
    broker_id=2,
    max_timestamp=lb.TIMESTAMP,
    event_timestamp=lb.TIMESTAMP + 500,
    segment_leader_epochs=((0, 0), (3, 500)),
    segment_size=100_500,
    state=SegmentState.COPY_SEGMENT_STARTED,
)
_SIZES = {index: 10 * number for number, index in enumerate(IndexType, 1)}


def files(pattern: str, largest: int) -> list[bytes]:
    """The beginnings of one kind of file that brokers left whole, each content once."""
    return sorted({path.read_bytes()[:largest] for path in DATA.glob(f"*-*.*/**/{pattern}")})


def batches() -> list[bytes]:
    """The first whole entries of bundled segments, and of each kind that they lack."""
    found = {_whole(data) for data in files("*.log", 1200)}
    made = [
        lb.data_batch(0, 3, 7, 0, 0, transactional=True) + lb.marker(3, 7, 1, 2, commit=False),
        lb.legacy_entry(0, 0) + lb.legacy_entry(1, 1) + lb.data_batch(2, 1),
        lb.empty_batch(0, 3, 7, 0, 5, True) + lb.leader_change(3),
        ts.batch(0, (ts.key("my-id"), ts.value()), (ts.key("my-id"), None)),
        lb.data_batch(0, 2, 7, 0, 0) + bytes(64),
    ]
    return sorted(data for data in found if data)[::6] + made


def _whole(data: bytes) -> bytes:
    """As many whole entries as 600 bytes hold."""
    end = 0
    while end + 12 <= len(data):
        following = end + 12 + struct.unpack_from(">i", data, end + 8)[0]
        if not end < following <= min(len(data), 600):
            break
        end = following
    return data[:end]


def manifest_seeds() -> list[bytes]:
    """As `tier` writes them, with a transaction index and without."""
    without = {index: size for index, size in _SIZES.items() if index is not IndexType.TRANSACTION}
    return [rsm_manifest.encode(METADATA, sizes, chunk_size=4 << 20) for sizes in (_SIZES, without)]


def metadata_record_seeds() -> list[bytes]:
    """As brokers write them."""
    update = metadata_records.SegmentUpdate(METADATA.id, 2, 17, SegmentState.COPY_SEGMENT_FINISHED, b"custom")
    return [metadata_records.encode(each) for each in (metadata_records.SegmentRecord(METADATA, None, True), update)]


def listing_seeds() -> list[bytes]:
    """A partition with one decode and one superseded object."""
    listed = ListedPartition(log_dir="/logs", topic="orders", partition=0)
    decode = CollectedDecode(0, "part", size_bytes=10, run_starts=(0,))
    return [Listing(listed, {0: decode}, {"old": 5}).encode()]
