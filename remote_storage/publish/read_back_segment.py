"""The segment of a read-back. Its records have the offsets of the local records, but other bytes."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.send_objects import copy_segment
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch
from tiersnap.snapshot.formats.encoded_batch import encode_batch
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NonceSegment:
    """A segment at offset 0 in which every record has the value `nonce`. This value exists nowhere else."""

    partition: TopicIdPartition
    leader: int
    leader_epoch: int
    count: int  # number of records
    timestamp: int  # of each record, ms
    nonce: bytes

    @classmethod
    def of(
        cls, partition: TopicIdPartition, leader: int, leader_epoch: int, *, count: int, timestamp: int
    ) -> NonceSegment:
        """Return a segment with a new nonce."""
        nonce = f"tiersnap reads {secrets.token_hex(16)} back".encode()
        return cls(partition, leader, leader_epoch, count, timestamp, nonce)

    def upload(self, location: RemoteLocation) -> RemoteLogSegmentMetadata:
        """Upload the segment and return its COPY_SEGMENT_STARTED metadata. Errors are those of `copy_segment`."""
        at = RemoteLogSegmentId.of(self.partition, new_segment_id())
        with self._bundle() as bundle:
            metadata = bundle.metadata(at, broker_id=self.leader, event_timestamp=int(time.time() * 1000))
            copy_segment(location, bundle, metadata)
        _log.info("uploaded %d records to %s", self.count, location.log_uri(metadata))
        return metadata

    @contextmanager
    def _bundle(self) -> Iterator[SegmentBundle]:
        batch = encode_batch(
            [self.nonce] * self.count, base_offset=0, leader_epoch=self.leader_epoch, timestamp=self.timestamp
        )
        with TemporaryDirectory(prefix="tiersnap-") as folder:
            log = Path(folder) / f"{0:020d}.log"
            log.write_bytes(batch)
            no_producers = snapshot_file.encode(np.empty(0, ENTRY_DTYPE))
            yield SegmentBundle(
                base_offset=0,
                next_base_offset=self.count,
                max_timestamp=self.timestamp,
                log=SourceFile(LOCAL, str(log), len(batch)),
                leader_epochs=(LeaderEpoch(self.leader_epoch, 0),),
                producer_snapshot=TrustedSnapshot(self.count, no_producers, Provenance.COMPUTED),
            )
