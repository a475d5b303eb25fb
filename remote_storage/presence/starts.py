"""States that a carry may start from without a table: snapshots that went to remote storage with copies of ours.

A copy counts if its claim says that it finished, and what its snapshot was made of: the log from its beginning, a file
that was compared, or the log from where it began. The bytes are those of the copy, held against the claim's CRC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tiersnap.remote_storage.claims import Claim, ClaimedSegment, ClaimedSnapshot, read_claim
from tiersnap.remote_storage.errors import ObjectNotFoundError, SnapshotChangedError
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.layout import IndexType, Layout
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.state.trust import Provenance, SnapshotVerdict

_COMPUTED = frozenset({Provenance.COMPUTED, Provenance.COMPUTED_FROM_LOG_START, Provenance.COMPUTED_FROM_SNAPSHOT})
_STRICT = frozenset({SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS})


def find_start(
    store: ObjectStore, partition: TopicIdPartition, copies: Iterable[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """A row of listed.START of the first copy that gives one, None where none does; one request a copy.

    Args:
        copies: rows of listed.COPY of finished copies, those to be asked first in front.
    """
    for copy in copies:
        try:
            claim = _claim_of(store, partition, copy)
        except CorruptDataError:
            continue
        if claim is None or claim.finished != copy["segment_id"] or claim.snapshot is None:
            continue
        if _is_start(claim.snapshot):
            return {
                "offset": copy["end_offset"] + 1,
                "segment_id": copy["segment_id"],
                "segment_start_offset": copy["start_offset"],
                "crc32c": claim.snapshot.crc32c,
                "provenance": claim.snapshot.provenance,
            }
    return None


def brokers_own(
    store: ObjectStore, partition: TopicIdPartition, copies: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Those of these copies (rows of listed.COPY) that are brokers': no claim names them; one request a copy.

    Of a copy whose claim cannot be read nobody knows.
    """
    for copy in copies:
        with suppress(CorruptDataError):
            claim = _claim_of(store, partition, copy)
            if claim is None or copy["segment_id"] not in {attempt.segment_id for attempt in claim.attempts}:
                yield copy


def _claim_of(store: ObjectStore, partition: TopicIdPartition, copy: Mapping[str, Any]) -> Claim | None:
    segment = ClaimedSegment(partition, copy["start_offset"], copy["leader_epochs"][-1]["epoch"])
    return read_claim(store, ObjectKeys(), segment)


def _is_start(snapshot: ClaimedSnapshot) -> bool:
    """Leave to upload is not enough: a broker's file must have matched the log with every entry counted."""
    is_compared = snapshot.provenance == Provenance.BROKER and snapshot.verdict in _STRICT
    return snapshot.provenance in _COMPUTED or is_compared


def read_start(store: ObjectStore, layout: Layout, partition: TopicIdPartition, start: Mapping[str, Any]) -> bytes:
    """The snapshot of a row of listed.START; empty where a copy has none and nobody read its claim.

    Raises:
        SnapshotChangedError: it is gone, or another one than the claim says, where a claim was read.
    """
    segment_id = RemoteLogSegmentId(partition.topic, partition.topic_id or "", partition.partition, start["segment_id"])
    metadata = RemoteLogSegmentMetadata(
        id=segment_id,
        start_offset=start["segment_start_offset"],
        end_offset=start["offset"] - 1,
        broker_id=-1,
        max_timestamp=-1,
        event_timestamp=0,
        segment_leader_epochs=((0, start["segment_start_offset"]),),
        segment_size=1,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
    cause = ""
    try:
        data = layout.fetch_index(store, metadata, IndexType.PRODUCER_SNAPSHOT) or b""
    except ObjectNotFoundError as error:
        data, cause = b"", error.message
    claimed = start["crc32c"]
    if claimed in (None, crc32c(data)):
        return data
    raise SnapshotChangedError(
        f"{segment_id}: {cause or f'its snapshot has CRC {crc32c(data):08x}, its claim says {claimed:08x}'}",
        hint="tiersnap restore looks at it",
        offset=start["offset"],
        at="",
    )
