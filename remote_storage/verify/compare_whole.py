"""Read and compare every byte of remote segments before a publication or a deletion.

`publish`, `unblock` and `mend` call `find_problems` or `compare_whole` before they write a record. `tier` calls
`find_problems` before it finishes the claim of a killed attempt. `tier` and `maintain remove-orphans` call
`read_remaining` before they delete a segment.

Every batch, the leader epochs, the indexes and the snapshot are read. If a local log has the segment, every part is
compared with the local log. Segments that this run uploaded are not read again, because the upload checked every byte.
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
from tiersnap.remote_storage.verify.local_log import CompareLocally, LocalComparison
from tiersnap.remote_storage.verify.whole_segment import ReasonedVerdict, WholeSegmentCheck
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, ComparedWith, RemoteVerdict
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

_log = logging.getLogger(__name__)

COMPARED = frozenset({RemoteVerdict.MATCHES, RemoteVerdict.EXTENDS})
"""The verdicts of segments whose bytes were all compared."""


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment whose objects were all read.

    Attributes:
        result: the verdict.
        is_compared: whether the segment was compared with a local log.
        digest: digest over all batch headers; "" if a batch is damaged.
    """

    segment_id: str
    result: ReasonedVerdict
    is_compared: bool
    digest: str

    @property
    def doubt(self) -> str:
        """Return why the segment is not proven to be right; "" if all bytes were compared and are right."""
        if self.result.verdict in COMPARED:
            return ""
        return f"{self.result.verdict}: {self.result.reason}"


def find_problems(
    location: RemoteLocation,
    partition: TopicIdPartition,
    ids: Collection[str],
    compare: CompareLocally | None,
    expiry: BrokerExpiry,
) -> dict[str, str]:
    """Read the complete segments among `ids`. Return the reasons why segments may not be published, by segment id.

    Encrypted segments cannot be read, so the result does not contain them.

    Args:
        location: the remote location.
        partition: the partition.
        ids: segment ids.
        compare: compares segments with the local log; None without a local log.
        expiry: the time of the run, and the brokers' producer expiration; a snapshot may omit expired producers.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    if not ids:
        return {}
    inventory = list_remote_partition(location, partition)
    found = {each.segment_id: each for each in inventory.segments if each.segment_id in ids}

    def read(wanted: Collection[str]) -> dict[str, str]:
        told = compare_whole(location, [found[each] for each in wanted], compare, inventory.claimed, expiry)
        return {each.segment_id: each.result.reason for each in told if not each.result.verdict.is_sound}

    first = read(found)
    if not first:
        return {}
    doubts = read(first)  # read wrong segments again, because the network may have changed a byte
    for segment_id, why in doubts.items():
        if why != first[segment_id]:
            raise TransientError(
                f"{partition}:{segment_id}: two reads of the segment returned different bytes: first: "
                f"{first[segment_id]}; then: {why}",
                hint="run the same command again",
            )
    for segment_id, why in doubts.items():
        _log.warning("not published: %s:%s: %s", partition, segment_id, why)
    return doubts


@dataclass(frozen=True, slots=True)
class Doubts:
    """The reasons why segments are wrong, by segment id.

    Attributes:
        damaged: reasons why segments are damaged.
        differing: reasons why undamaged segments differ from the local log. These segments are from another log.
    """

    damaged: dict[str, str]
    differing: dict[str, str]


def split_problems(
    location: RemoteLocation,
    partition: TopicIdPartition,
    ids: Collection[str],
    compare: CompareLocally | None,
    expiry: BrokerExpiry,
) -> Doubts:
    """Return the result of `find_problems`, split into damaged segments and segments of another log."""
    doubts = find_problems(location, partition, ids, compare, expiry)
    damaged = find_problems(location, partition, doubts.keys(), None, expiry)
    differing = {each: why for each, why in doubts.items() if each not in damaged}
    return Doubts(damaged, differing)


def compare_whole(
    location: RemoteLocation,
    segments: Sequence[RemoteSegment],
    compare: CompareLocally | None,
    claimed: Container[ClaimedSegment],
    expiry: BrokerExpiry,
) -> Iterator[ReadSegment]:
    """Read and compare every object of complete segments, in ascending offset.

    Args:
        location: the remote location.
        segments: complete segments of one partition.
        compare: see `find_problems`.
        claimed: segments that have a claim; the claim may mark the snapshot as trusted.
        expiry: see `find_problems`.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    local = _compare_readable(location.store, segments, compare)
    asked = CheckRequest(CheckDepth.FULL, expiry.now, expiry.expiration)
    check = WholeSegmentCheck(
        location.store, asked, claimed, {}, local, lambda each: each.segment_id in local.snapshots
    )
    for segment in sorted(segments, key=lambda each: each.bounds):
        told = check.judge(segment)
        is_compared = segment.segment_id in local.digests and told.compared_with is ComparedWith.LOCAL_LOG
        yield ReadSegment(segment.segment_id, told, is_compared, check.digests.get(segment.segment_id, ""))


def read_remaining(store: ObjectStore, segment: RemoteSegment, now: int) -> ReadSegment:
    """Read and verify the segment that will remain after another segment with the same offsets is deleted.

    `now` is the time of the run in ms.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    expiry = BrokerExpiry(now, DEFAULT_PRODUCER_EXPIRATION_MS)
    (read,) = compare_whole(RemoteLocation(store, segment.layout), [segment], None, (), expiry)
    return read


def _compare_readable(
    store: ObjectStore, segments: Sequence[RemoteSegment], compare: CompareLocally | None
) -> LocalComparison:
    readable = [each for each in segments if not each.is_encrypted]
    if compare is None or not readable:
        return LocalComparison()
    return compare(store, readable)
