"""Plan a check from one listing of the store: count partitions, segments, bytes and requests.

A partition with claims but without segments is verified, too, because its segments may be lost. As in other commands, a
partition is refused if its complete segments do not have the layout of the remote location.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop

from tiersnap.remote_storage.errors import ObjectNotFoundError, OtherLayoutError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind, ParsedKey
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.complete import check_other_layout
from tiersnap.remote_storage.remote_log.segment_bytes import FETCH_SIZE
from tiersnap.remote_storage.remote_log.segment_objects import list_segments
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.remote_storage.verify.partition_check import sample_order
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.units import count_of, human_bytes

_LOGS = (KeyKind.LOG, KeyKind.LOCAL_LOG)
_SMALLEST = (KeyKind.RSM_MANIFEST, KeyKind.LOCAL_LEADER_EPOCHS, KeyKind.LOCAL_OFFSET_INDEX)
# Requests per segment at each depth, without requests for the log.
_AIVEN = {CheckDepth.METADATA: 1, CheckDepth.SNAPSHOTS: 2, CheckDepth.FULL: 2}
_LOCAL = {CheckDepth.METADATA: 3, CheckDepth.SNAPSHOTS: 9, CheckDepth.FULL: 9}
# Requests per partition: listings, and the indexes of the newest segment for the lineage.
_AIVEN_PARTITION, _LOCAL_PARTITION = 4, 8
_TAIL_BYTES = 1 << 20  # bytes of a LocalTieredStorage log that are read for its end offset
_EVERY = 1 << 32


@dataclass
class CheckPlan:
    """The amount of work of a planned check.

    Attributes:
        partitions: number of segments by partition; 0 if the partition has only claims.
        segments: number of segments to verify.
        requests: upper bound of requests for these segments.
        bytes: upper bound of bytes to read, without `largest`.
        sampled: see CheckRequest; None if all segments are verified.
        largest: size in bytes of the largest object, by partition and kind, without logs and manifests. A check may
            also read one object of each kind from a segment that it does not verify, for example to find the lineage.
        refusals: an error for each partition whose complete segments are in the layout that `location` does not have.
            These partitions are not verified.
    """

    location: RemoteLocation
    asked: CheckRequest
    partitions: Counter[TopicIdPartition] = field(default_factory=Counter)
    segments: int = 0
    requests: int = 0
    bytes: int = 0
    sampled: int | None = None
    largest: dict[tuple[TopicIdPartition, KeyKind], int] = field(default_factory=dict)
    refusals: list[OtherLayoutError] = field(default_factory=list)

    @property
    def request(self) -> CheckRequest:
        """Return `asked` with the `sampled` of this plan."""
        return replace(self.asked, sampled=self.sampled)

    @property
    def sentence(self) -> str:
        """Return the plan as one line of output."""
        chosen = count_of(self.segments, "segment")
        if self.sampled is not None:
            chosen = f"{self.segments} of {count_of(self.partitions.total(), 'segment')}"
        where = count_of(len(self.partitions), "partition")
        reads = f"at most {count_of(self.most_requests, 'request')}, {human_bytes(self.most_bytes)}"
        return f"plan: verify {chosen} of {where} at depth {self.asked.depth}: {reads}"

    @property
    def most_requests(self) -> int:
        """Return the upper bound of requests; each listing counts as one."""
        of_partition = _AIVEN_PARTITION
        if self.location.is_local:
            of_partition = _LOCAL_PARTITION
        return self.requests + len(self.partitions) * of_partition

    @property
    def most_bytes(self) -> int:
        """Return the upper bound of bytes to read."""
        return self.bytes + sum(self.largest.values())

    def note(self, partition: TopicIdPartition, kind: KeyKind, size: int) -> None:
        """Count an object of any segment, inside or outside the sample."""
        self.partitions[partition] += kind in _LOGS
        if kind not in (*_LOGS, KeyKind.RSM_MANIFEST):
            self.largest[partition, kind] = max(size, self.largest.get((partition, kind), 0))

    def add(self, kind: KeyKind, size: int, modified: int) -> None:
        """Count an object of a segment to verify; `modified` is its write time in ms."""
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
            self.requests += of_depth[CheckDepth.METADATA] + 1  # plus the snapshot of the previous segment
        if self._is_log_read(modified):
            self.requests += 1 - size // -FETCH_SIZE
            self.bytes += size

    def _is_log_read(self, modified: int) -> bool:
        """Return whether a check at this depth may read the log of a segment that was written at `modified` (ms)."""
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
    """List the store and return the plan of a check.

    Args:
        location: the remote location.
        asked: depth, time and producer expiration of the check.
        is_wanted: returns whether a partition is to be verified.
        percent: size of a random sample in percent of the segments; None for all.
        number: size of a random sample in segments, which costs a second listing; None for all.

    Raises:
        OtherLayoutError: the location has segments of these partitions only in the other layout.
        ObjectNotFoundError: the location has no segment of these partitions.
    """
    sampled = None
    if percent is not None:
        sampled = int(_EVERY * percent / 100)
    if number is not None:
        sampled = _largest_of(location, asked, is_wanted, number)
    plan = CheckPlan(location, asked, sampled=sampled)
    claimed: set[TopicIdPartition] = set()
    elsewhere: set[TopicIdPartition] = set()  # partitions with segments in the other layout
    for key, info in _keys(location, is_wanted):
        partition, kind = key.partition, key.kind
        if key.segment_id is None:
            if kind is KeyKind.CLAIM:
                claimed.add(partition)
            continue
        if not _is_of_segment(key, location):
            elsewhere.add(partition)
            continue
        plan.note(partition, kind, info.size)
        if sampled is None or sample_order(key.segment_id, asked.now) <= sampled:
            plan.add(kind, info.size, info.modified)
    refused = _refused(plan, elsewhere)
    plan.refusals += refused.values()
    plan.partitions.update(dict.fromkeys(claimed - refused.keys() - plan.partitions.keys(), 0))
    if not plan.partitions:
        raise _nothing_to_verify(plan)
    return plan


def _nothing_to_verify(plan: CheckPlan) -> TiersnapError:
    """Return the error of a plan without partitions."""
    if plan.refusals:
        return plan.refusals[0]
    return ObjectNotFoundError(
        f"{plan.location.store.uri}: no remote segment in this location is selected",
        hint="compare --remote, its prefix and --layout with server.properties of the brokers; --topic must match the "
        "whole name of a topic",
    )


def _refused(plan: CheckPlan, elsewhere: Collection[TopicIdPartition]) -> dict[TopicIdPartition, OtherLayoutError]:
    """Return the error of each partition in `elsewhere` whose complete segments are all in the other layout."""

    def refusal(partition: TopicIdPartition) -> OtherLayoutError | None:
        has_objects = partition in plan.partitions
        if has_objects and any(not each.missing for each in list_segments(plan.location, partition)):
            return None
        try:
            check_other_layout(plan.location, partition, ())
        except OtherLayoutError as error:
            return OtherLayoutError(f"{partition}: {error.message}", hint=error.hint)
        return None

    partitions = sorted(elsewhere)
    found = zip(partitions, in_parallel(refusal, partitions), strict=True)
    return {each: error for each, error in found if error is not None}


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
    """Return the greatest `sample_order` in a sample of `number` segments."""
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
