"""A replica of `__remote_log_metadata` in a log directory, as a broker keeps it beside the partitions that it leads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.reference.log_builder import data_batch, write_partition
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.metadata_records import (
    METADATA_TOPIC,
    MetadataRecord,
    SegmentRecord,
    SegmentUpdate,
    encode,
)
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.open_store import open_store


def records_of(segment: RemoteLogSegmentMetadata, *states: SegmentState) -> list[MetadataRecord]:
    """COPY_SEGMENT_STARTED of a segment, and its later states in order."""
    started = replace(segment, state=SegmentState.COPY_SEGMENT_STARTED, broker_id=1)
    return [SegmentRecord(started), *(SegmentUpdate(segment.id, 1, 0, state) for state in states)]


def finished_in(remote: Path | str, layout: str = "aiven") -> list[RemoteLogSegmentMetadata]:
    """The segments in a remote location, ascending."""
    return finished_segments(open_location(open_store(str(remote)), layout), lambda _: True)


def published(segments: Iterable[RemoteLogSegmentMetadata]) -> list[MetadataRecord]:
    """The records of finished copies."""
    return [each for segment in segments for each in records_of(segment, SegmentState.COPY_SEGMENT_FINISHED)]


def write_replica(
    log_dir: Path, records: Iterable[MetadataRecord], *, number: int = 7, high_watermark: int | None = None
) -> Path:
    """Write the records as partition `number`, a batch each; all of them lie below the high watermark by default."""
    batches = [data_batch(offset, 1, payload=encode(record)) for offset, record in enumerate(records)]
    end = len(batches) if high_watermark is None else high_watermark
    return write_partition(log_dir, METADATA_TOPIC, number, {0: batches}, high_watermark=end)
