"""Remote segments read whole before they become visible, or before another one is deleted: names prove nothing.

`publish`, `unblock` and `mend` call `find_doubts` or `compare_whole` before they write a record, `tier` before it
finishes the copy of an attempt that was killed; `tier` and `maintain remove-orphans` call `read_remaining` before they
delete a log. Every batch, the leader epochs, the indexes and the snapshot are read, and compared with a local log as
far as one has the segment. Segments that this run uploaded were compared while they were sent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.verify.local_log import ToldLocally
from tiersnap.remote_storage.verify.partition_check import CompareLocally
from tiersnap.remote_storage.verify.whole_segment import Told, WholeSegmentCheck
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, ComparedWith, RemoteVerdict
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

_log = logging.getLogger(__name__)

COMPARED = frozenset({RemoteVerdict.MATCHES, RemoteVerdict.EXTENDS})
"""Verdicts on segments whose bytes were all read and compared."""


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment that was read.

    Attributes:
        is_compared: whether the local log has it, too.
        digest: over the headers of all batches; "" if one is damaged.
    """

    segment_id: str
    told: Told
    is_compared: bool
    digest: str

    @property
    def doubt(self) -> str:
        """Return why the segment is not proven to be right; "" if all its bytes were read and compared."""
        return "" if self.told.verdict in COMPARED else f"{self.told.verdict}: {self.told.reason}"


def find_doubts(
    location: RemoteLocation,
    partition: TopicIdPartition,
    ids: Collection[str],
    compare: CompareLocally | None,
    expiry: BrokerExpiry,
) -> dict[str, str]:
    """Read the complete segments among `ids`; return the reasons why some may not be published, by segment id.

    A segment that the plugin encrypted cannot be read, and is not doubted.

    Args:
        compare: compares them with the local log; None without one.
        expiry: when brokers forget producers, and the time now. A snapshot may omit producers that expired.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses.
    """
    if not ids:
        return {}
    inventory = list_remote_partition(location, partition)
    found = {each.segment_id: each for each in inventory.segments if each.segment_id in ids}

    def read(wanted: Collection[str]) -> dict[str, str]:
        told = compare_whole(location, [found[each] for each in wanted], compare, inventory.claimed, expiry)
        return {each.segment_id: each.told.reason for each in told if not each.told.verdict.is_sound}

    first = read(found)
    if not first:
        return {}
    doubts = read(first)  # the network may have flipped a byte
    for segment_id, why in doubts.items():
        if why != first[segment_id]:
            raise TransientError(
                f"{partition}:{segment_id}: read twice, with other bytes: {first[segment_id]}; {why}",
                hint="run the same command again",
            )
    for segment_id, why in doubts.items():
        _log.warning("not made visible: %s:%s: %s", partition, segment_id, why)
    return doubts


@dataclass(frozen=True, slots=True)
class Doubts:
    """The reasons why segments are wrong, by segment id.

    Attributes:
        damaged: wrong in themselves.
        differing: right in themselves, and not the segments of the local log: the others hold another log.
    """

    damaged: dict[str, str]
    differing: dict[str, str]


def split_doubts(
    location: RemoteLocation,
    partition: TopicIdPartition,
    ids: Collection[str],
    compare: CompareLocally | None,
    expiry: BrokerExpiry,
) -> Doubts:
    """Find the doubts, and tell damage from another log; see `find_doubts`."""
    doubts = find_doubts(location, partition, ids, compare, expiry)
    damaged = find_doubts(location, partition, doubts.keys(), None, expiry)
    return Doubts(damaged, {each: why for each, why in doubts.items() if each not in damaged})


def compare_whole(
    location: RemoteLocation,
    segments: Sequence[RemoteSegment],
    compare: CompareLocally | None,
    claimed: Container[ClaimedSegment],
    expiry: BrokerExpiry,
) -> Iterator[ReadSegment]:
    """Read every object of complete segments, in ascending offsets, and compare them.

    Args:
        claimed: segments with a claim, which vouches for a snapshot.
        compare, expiry: see `find_doubts`.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses.
    """
    local = _compare_readable(location.store, segments, compare)
    asked = CheckRequest(CheckDepth.FULL, expiry.now, expiry.expiration)
    check = WholeSegmentCheck(
        location.store, asked, claimed, {}, local, lambda each: each.segment_id in local.snapshots
    )
    for segment in sorted(segments, key=lambda each: each.bounds):
        told = check.told(segment)
        is_compared = segment.segment_id in local.digests and told.compared_with is ComparedWith.LOCAL_LOG
        yield ReadSegment(segment.segment_id, told, is_compared, check.digests.get(segment.segment_id, ""))


def read_remaining(store: ObjectStore, segment: RemoteSegment, now: int) -> ReadSegment:
    """Read a segment by itself, before a copy of its offsets may be deleted; `now` in ms.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses.
    """
    expiry = BrokerExpiry(now, DEFAULT_PRODUCER_EXPIRATION_MS)
    (read,) = compare_whole(RemoteLocation(store, segment.layout), [segment], None, (), expiry)
    return read


def _compare_readable(
    store: ObjectStore, segments: Sequence[RemoteSegment], compare: CompareLocally | None
) -> ToldLocally:
    readable = [each for each in segments if not each.is_encrypted]
    if compare is None or not readable:
        return ToldLocally()
    return compare(store, readable)
