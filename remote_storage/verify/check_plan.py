"""Plan a check: count partitions and their segments in one listing of the store; nothing else is read.

A partition that has only claims is checked, too, because it lost all its segments, or retention deleted them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind, ParsedKey
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.segment_bytes import FETCH_SIZE
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.remote_storage.verify.partition_check import sample_order
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.units import count_of, human_bytes

_LOGS = (KeyKind.LOG, KeyKind.LOCAL_LOG)
_SMALLEST = (KeyKind.RSM_MANIFEST, KeyKind.LOCAL_LEADER_EPOCHS, KeyKind.LOCAL_OFFSET_INDEX)
# Requests of a segment without those for its log: the listing's, and those of each depth.
_AIVEN = {CheckDepth.METADATA: 1, CheckDepth.SNAPSHOTS: 2, CheckDepth.FULL: 2}
_LOCAL = {CheckDepth.METADATA: 3, CheckDepth.SNAPSHOTS: 9, CheckDepth.FULL: 9}
# Requests of a partition: its listings, and the indexes of its newest segment, for the lineage.
_AIVEN_PARTITION, _LOCAL_PARTITION = 4, 8
_TAIL_BYTES = 1 << 20  # of a log of LocalTieredStorage, for its end
_EVERY = 1 << 32


@dataclass
class CheckPlan:
    """The counts of a plan.

    Attributes:
        partitions: segments of each; 0 if only claims are left.
        bytes: at most what the depth reads, without `largest`.
        largest: bytes of the largest object of each kind except logs. Each partition reads one more of each.
        sampled: see CheckRequest; None if all segments are verified.
    """

    location: RemoteLocation
    asked: CheckRequest
    partitions: Counter[TopicIdPartition] = field(default_factory=Counter)
    segments: int = 0
    requests: int = 0
    bytes: int = 0
    sampled: int | None = None
    largest: dict[tuple[TopicIdPartition, KeyKind], int] = field(default_factory=dict)

    @property
    def request(self) -> CheckRequest:
        """Return the request, with the sample that was chosen."""
        return replace(self.asked, sampled=self.sampled)

    @property
    def sentence(self) -> str:
        """For people."""
        chosen = count_of(self.segments, "segment")
        if self.sampled is not None:
            chosen = f"{self.segments} of {count_of(self.partitions.total(), 'segment')}"
        where = count_of(len(self.partitions), "partition")
        reads = f"at most {count_of(self.most_requests, 'request')}, {human_bytes(self.most_bytes)}"
        return f"plan: {chosen} of {where} at depth {self.asked.depth}: {reads}"

    @property
    def most_requests(self) -> int:
        """Return how many requests a check makes at most, if a listing takes one."""
        return self.requests + len(self.partitions) * (_LOCAL_PARTITION if self.location.is_local else _AIVEN_PARTITION)

    @property
    def most_bytes(self) -> int:
        """Return how many bytes a check reads at most."""
        return self.bytes + sum(self.largest.values())

    def note(self, partition: TopicIdPartition, kind: KeyKind, size: int) -> None:
        """Count an object of a segment, whether it is verified or not."""
        self.partitions[partition] += kind in _LOGS
        if kind not in (*_LOGS, KeyKind.RSM_MANIFEST):
            self.largest[partition, kind] = max(size, self.largest.get((partition, kind), 0))

    def add(self, kind: KeyKind, size: int, modified: int) -> None:
        """Count an object of a segment that is verified."""
        if kind in _LOGS:
            self._add_log(size, modified)
        elif kind in _SMALLEST or self.asked.depth is not CheckDepth.METADATA:
            self.bytes += size

    def _add_log(self, size: int, modified: int) -> None:
        depth = self.asked.depth
        self.segments += 1
        of_depth = _AIVEN
        if self.location.is_local:
            of_depth = _LOCAL
            self.bytes += min(size, _TAIL_BYTES)
        self.requests += of_depth[depth]
        if self.sampled is not None and depth is not CheckDepth.METADATA:
            self.requests += of_depth[CheckDepth.METADATA] + 1  # the snapshot of the segment before it
        if self._is_log_read(modified):
            self.requests += 1 - size // -FETCH_SIZE
            self.bytes += size

    def _is_log_read(self, modified: int) -> bool:
        """Return whether the depth reads the log of a segment, written at `modified` (ms)."""
        if self.asked.depth is CheckDepth.FULL:
            return True
        expiration = self.asked.producer_expiration
        may_live = expiration is None or self.asked.now - modified < expiration
        return self.asked.depth is CheckDepth.SNAPSHOTS and may_live


def plan_check(
    location: RemoteLocation,
    asked: CheckRequest,
    is_wanted: Callable[[TopicPartition], bool],
    *,
    percent: float | None = None,
    number: int | None = None,
) -> CheckPlan:
    """Count what will be read; a listing of the whole store, of which nothing is kept but a number a partition.

    Args:
        percent, number: of segments, as a sample; a second listing.

    Raises:
        ObjectNotFoundError: there is no segment.
    """
    sampled = None if percent is None else int(_EVERY * percent / 100)
    if number is not None:
        sampled = _largest_of(location, asked, is_wanted, number)
    plan = CheckPlan(location, asked, sampled=sampled)
    claimed: set[TopicIdPartition] = set()
    elsewhere: set[TopicIdPartition] = set()  # whose segments have the keys of the other layout
    for key, info in _keys(location, is_wanted):
        partition, kind = key.partition, key.kind
        if key.segment_id is None:
            claimed.update([partition] if kind is KeyKind.CLAIM else [])
            continue
        if not _is_of_segment(key, location):
            elsewhere.add(partition)
            continue
        plan.note(partition, kind, info.size)
        if sampled is None or sample_order(key.segment_id, asked.now) <= sampled:
            plan.add(kind, info.size, info.modified)
    plan.partitions.update(dict.fromkeys(claimed - elsewhere - plan.partitions.keys(), 0))
    if not plan.partitions:
        raise ObjectNotFoundError(
            f"{location.store.uri}: no remote segment",
            hint="--remote, its prefix and --layout must be those of the brokers, --topic a topic's whole name",
        )
    return plan


def _keys(
    location: RemoteLocation, is_wanted: Callable[[TopicPartition], bool]
) -> Iterator[tuple[ParsedKey, ObjectInfo]]:
    for info in location.store.list():
        key = keys.recognise(info.key)
        if key is not None and is_wanted((key.partition.topic, key.partition.partition)):
            yield key, info


def _is_of_segment(key: ParsedKey, location: RemoteLocation) -> bool:
    return key.kind.is_local is location.is_local


def _largest_of(
    location: RemoteLocation, asked: CheckRequest, is_wanted: Callable[[TopicPartition], bool], number: int
) -> int:
    """Return the largest `sample_order` of the `number` segments that are first in it."""
    first: list[int] = []
    for key, _ in _keys(location, is_wanted):
        if key.segment_id is None or key.kind not in _LOGS:
            continue
        if not _is_of_segment(key, location):
            continue
        order = -sample_order(key.segment_id, asked.now)
        if len(first) < number:
            heappush(first, order)
        else:
            heappushpop(first, order)
    if not first:
        return 0
    return -first[0]
