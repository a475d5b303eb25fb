"""Finished remote segments: of a warehouse's tables, or of the manifests in remote storage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.manifest_segments import segments_in_store
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import MissingExtraError, UsageError
from tiersnap.snapshot.log.selection import matches_topic

if TYPE_CHECKING:
    from tiersnap.jobs.warehouse import Warehouse

# The run that wrote a row of remote_log_segments for a segment that a broker, or another warehouse, had tiered.
OF_THE_CLUSTER = "cluster"


def open_warehouse(uri: str, run_id: str = "") -> Warehouse:
    """The tables below `uri`.

    Raises:
        MissingExtraError: without deltalake.
    """
    try:
        from tiersnap.jobs.warehouse import Warehouse
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "deltalake":
            raise
        raise MissingExtraError(f"{uri}: tables need deltalake", hint="pip install 'tiersnap[spark]'") from error
    return Warehouse(uri, run_id)


def from_warehouse(warehouse: Warehouse, topic: re.Pattern[str] | None) -> list[RemoteLogSegmentMetadata]:
    """Segments that its runs have finished, and those that `remember` has put there."""
    from tiersnap.jobs.pipeline.tier_task import to_metadata
    from tiersnap.jobs.pipeline.tiering import finished, remote_segments

    rows = finished(remote_segments(warehouse)).to_pylist()
    return [to_metadata(row) for row in rows if matches_topic(row["topic"], topic)]


def from_store(store: ObjectStore, layout: Layout, topic: re.Pattern[str] | None) -> list[RemoteLogSegmentMetadata]:
    """Segments whose manifest is in the store.

    Raises:
        UsageError: a layout without manifests.
    """
    if not isinstance(layout, AivenLayout):
        raise UsageError(
            f"the layout {layout.name} keeps no manifests: what a segment is cannot be told from its files",
            hint="publish from the tables of the run that tiered: --warehouse URI",
        )
    return list(segments_in_store(store, layout.keys, lambda name: matches_topic(name, topic)))


def remember(warehouse: Warehouse, segments: Iterable[RemoteLogSegmentMetadata]) -> int:
    """Let the tables know finished segments that others have tiered, so that no run tiers them again.

    Returns how many were new.
    """
    import pyarrow as pa

    from tiersnap.snapshot import tables

    there = set(warehouse.read("remote_log_segments")["segment_id"].to_pylist())
    rows = [_row(segment) for segment in segments if segment.id.segment_id not in there]
    warehouse.append("remote_log_segments", pa.Table.from_pylist(rows, schema=tables.REMOTE_LOG_SEGMENTS))
    return len(rows)


def _row(segment: RemoteLogSegmentMetadata) -> dict[str, object]:
    return {
        "topic": segment.id.topic,
        "topic_id": segment.id.topic_id,
        "partition": segment.id.partition,
        "segment_id": segment.id.segment_id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "segment_size_bytes": segment.segment_size,
        "max_timestamp": segment.max_timestamp,
        "leader_epochs": [{"epoch": epoch, "start_offset": start} for epoch, start in segment.segment_leader_epochs],
        "state": SegmentState.COPY_SEGMENT_FINISHED.name,
        "event_timestamp": segment.event_timestamp,
        "run_id": OF_THE_CLUSTER,
    }
