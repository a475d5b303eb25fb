"""The deletion record of a partition, written before its first object goes: DELETE_SEGMENT_STARTED without a broker.

    claims/<topic>-<topic id>/<partition>/expire.json
    {"version":1,"logStartOffset":200,"deleting":[{"segmentId":"…","startOffset":0,"endOffset":100}, …]}

End offsets are exclusive. A segment that is deleted (DELETE_SEGMENT_FINISHED) is not named any more, as a broker's
metadata cache forgets it; the log start offset stays. Each write replaces what was read and no other, so that of two
runs at one partition the slower one stops.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.errors import ObjectChangedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.own_objects import stored_json
from tiersnap.remote_storage.own_objects.stored_json import Offset, SegmentId, Stored, StoredObject
from tiersnap.remote_storage.stores.object_store import ObjectStore

_log = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20  # 100 bytes a segment
_MOVE_AWAY = (
    "see that no tiersnap expire is at work there, then move this object away: what it began to delete is no whole "
    "copy any more, and tiersnap maintain remove-orphans names what is left of it"
)


class Deleting(Stored, frozen=True):
    """A segment in DELETE_SEGMENT_STARTED; `end_offset` is exclusive."""

    segment_id: SegmentId
    start_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class ExpireRecord:
    """The record of a partition; `etag` is None while there is no such object."""

    log_start_offset: int = 0
    deleting: tuple[Deleting, ...] = ()
    etag: str | None = field(default=None, compare=False)

    def has_taken(self, segment_id: str, start_offset: int) -> bool:
        """Return whether nobody misses an incomplete segment: it is being deleted, or begins below the log start."""
        return start_offset < self.log_start_offset or any(each.segment_id == segment_id for each in self.deleting)

    def encode(self) -> bytes:
        """One line of JSON."""
        return stored_json.encode(_StoredRecord(log_start_offset=self.log_start_offset, deleting=self.deleting))

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> ExpireRecord:
        """The inverse of `encode`, without an etag; raises as `stored_json.decode`."""
        what = "a record of tiersnap expire"
        found = stored_json.decode(data, _StoredRecord, name=name, what=what, limit=_MOST_BYTES, hint=_MOVE_AWAY)
        empty = next((each for each in found.deleting if each.end_offset <= each.start_offset), None)
        if empty is not None:
            raise stored_json.corrupt(name, what, f"no segment: {empty.segment_id}", _MOVE_AWAY)
        return cls(found.log_start_offset, found.deleting)


class _StoredRecord(StoredObject, frozen=True, kw_only=True):
    log_start_offset: Offset
    deleting: tuple[Deleting, ...]


def read_record(store: ObjectStore, partition: TopicIdPartition) -> ExpireRecord:
    """Return the deletion record of a partition; raises as `stored_json.decode`."""
    found = stored_json.read(store, keys.expire(partition), ExpireRecord.decode, limit=_MOST_BYTES)
    return ExpireRecord() if found is None else replace(found.content, etag=found.etag)


def read_records(store: ObjectStore, topic: str) -> dict[TopicIdPartition, ExpireRecord]:
    """Return the deletion record of each partition of a topic, under any topic id. Raises as read_record."""
    found = (keys.recognise(info.key) for info in store.list(keys.topic_claims(topic)))
    return {
        key.partition: read_record(store, key.partition)
        for key in found
        if key is not None and key.kind is KeyKind.EXPIRE and key.partition.topic == topic
    }


def write_record(store: ObjectStore, partition: TopicIdPartition, record: ExpireRecord) -> ExpireRecord:
    """Write a record in the place of the one whose etag it has.

    Raises:
        ObjectChangedError: another run has written one since.
    """
    key = keys.expire(partition)
    try:
        etag = stored_json.write(store, key, record.encode(), record.etag)
    except ObjectChangedError as error:
        raise ObjectChangedError(
            f"{store.uri}{key}: another run of tiersnap expire is at {partition}",
            hint="wait for it, then run the same command again",
        ) from error
    _log.debug("recorded %s%s: %d segments go", store.uri, key, len(record.deleting))
    return replace(record, etag=etag)
