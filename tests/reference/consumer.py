"""The batches that a consumer reads of a partition: by records, objects and local files, one field at a time.

    reader = Consumer(PARTITION, LINEAGE, local_layout=False)
    reader.remote(index, objects)      # offset -> bytes of its batch, through the remote log
    local(folder)                      # the same from a log directory

A broker finds the segment of an offset by RemoteIndex, loads its indexes (RemoteIndexCache checks offset, time and
transaction index), begins at the position that the offset index tells, and skips batches until one ends at the offset
or behind it (RemoteLogManager.read). A consumer refuses a batch with a wrong CRC. Shares no code with the product: a
manifest is JSON, a batch is struct.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from tests.reference.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

Batches = dict[int, bytes]
"""Bytes of the batch that holds an offset."""

_BATCH = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta
_OFFSET_ENTRY, _TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset


class UnreadableError(Exception):
    """A broker answers an error for a fetch."""


@dataclass(frozen=True)
class Consumer:
    """A consumer of one partition behind brokers with one remote storage manager.

    Attributes:
        lineage: (leader epoch, start offset) of the leader, ascending.
        local_layout: whether brokers use LocalTieredStorage; else the Aiven plugin.
    """

    partition: TopicIdPartition
    lineage: tuple[tuple[int, int], ...]
    local_layout: bool

    def known(self, index: RemoteIndex, end: int) -> dict[int, str]:
        """Return the segment id in which brokers look for each offset below `end`."""
        cells = ((offset, index.find(self._epoch(offset), offset)) for offset in range(end))
        return {offset: found for offset, found in cells if found is not None}

    def remote(self, index: RemoteIndex, objects: Mapping[str, bytes], end: int) -> Batches:
        """Return the batches below `end` that remote storage gives a consumer."""
        segments = {each.id.segment_id: each for each in index.finished()}
        found = {}
        for offset, segment_id in self.known(index, end).items():
            try:
                found[offset] = self._fetch(segments[segment_id], objects, offset)
            except UnreadableError:
                continue
        return found

    def log_key(self, segment: RemoteLogSegmentMetadata) -> str:
        """Return the key of a segment's log."""
        return f"{self._stem(segment)}.log"

    def _epoch(self, offset: int) -> int:
        return max(epoch for epoch, start in self.lineage if start <= offset)

    def _stem(self, segment: RemoteLogSegmentMetadata) -> str:
        of, name = self.partition, f"{segment.start_offset:020d}-{segment.id.segment_id}"
        if self.local_layout:
            return f"kafka-tiered-storage/{of.topic}-{of.partition}-{of.topic_id}/{name}"
        return f"{of.topic}-{of.topic_id}/{of.partition}/{name}"

    def _fetch(self, segment: RemoteLogSegmentMetadata, objects: Mapping[str, bytes], offset: int) -> bytes:
        read = self._files if self.local_layout else self._manifest
        log, offsets, times, aborted = read(self._stem(segment), objects)
        _check_times(times)
        _check_aborted(aborted, segment.start_offset)
        position = _position(offsets, offset - segment.start_offset)
        for batch in _batches(log[position:]):
            base, _, _, _, crc, _, delta = _BATCH.unpack_from(batch)
            if base + delta < offset:
                continue
            if base > offset or google_crc32c.value(batch[21:]) != crc:
                raise UnreadableError
            return batch
        raise UnreadableError

    @staticmethod
    def _files(stem: str, objects: Mapping[str, bytes]) -> tuple[bytes, bytes, bytes, bytes]:
        suffixes = ("log", "index", "timeindex")
        if any(f"{stem}.{each}" not in objects for each in (*suffixes, "snapshot", "leader_epoch_checkpoint")):
            raise UnreadableError
        log, offsets, times = (objects[f"{stem}.{each}"] for each in suffixes)
        return log, offsets, times, objects.get(f"{stem}.txnindex", b"")

    @staticmethod
    def _manifest(stem: str, objects: Mapping[str, bytes]) -> tuple[bytes, bytes, bytes, bytes]:
        try:
            log, indexes = objects[f"{stem}.log"], objects[f"{stem}.indexes"]
            said = json.loads(objects[f"{stem}.rsm-manifest"])
            places = [said["segmentIndexes"][each] for each in ("offset", "timestamp", "transaction")]
            size = said["chunkIndex"]["originalFileSize"]
            parts = [(each["position"], each["size"]) if each else (0, 0) for each in places]
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableError from error
        if any(position + length > len(indexes) for position, length in parts):
            raise UnreadableError
        offsets, times, aborted = (indexes[position : position + length] for position, length in parts)
        return log[:size], offsets, times, aborted


def local(folder: Path) -> Batches:
    """Return the batches that a log directory's segments hold, up to the first damage of each."""
    found: Batches = {}
    for path in sorted(folder.glob("*.log")):
        found |= sound(path.read_bytes())
    return found


def sound(log: bytes) -> Batches:
    """Return the batches with right CRCs of a segment's log."""
    found: Batches = {}
    try:
        for batch in _batches(log):
            base, _, _, _, crc, _, delta = _BATCH.unpack_from(batch)
            if google_crc32c.value(batch[21:]) == crc:
                found |= dict.fromkeys(range(base, base + delta + 1), batch)
    except UnreadableError:
        pass
    return found


def _batches(log: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(log):
        if len(log) - position < 61:
            raise UnreadableError
        _, length, _, magic, _, _, delta = _BATCH.unpack_from(log, position)
        end = position + 12 + length
        if length < 49 or end > len(log) or magic != 2 or delta < 0:
            raise UnreadableError
        yield log[position:end]
        position = end


def _position(index: bytes, offset: int) -> int:
    """Return the position of the last entry up to a relative offset."""
    entries = _entries(_OFFSET_ENTRY, index)
    return max((position for entry, position in entries if entry <= offset), default=0)


def _check_times(index: bytes) -> None:
    """See TimeIndex.sanityCheck."""
    entries = list(_entries(_TIME_ENTRY, index))
    if entries and entries[-1] < entries[0]:
        raise UnreadableError


def _check_aborted(index: bytes, base_offset: int) -> None:
    """See TransactionIndex.sanityCheck."""
    for version, _, _, last, _ in _entries(_ABORTED_ENTRY, index):
        if version > 0 or last < base_offset:
            raise UnreadableError


def _entries(form: struct.Struct, index: bytes) -> Iterable[tuple[int, ...]]:
    if len(index) % form.size:
        raise UnreadableError
    return form.iter_unpack(index)
