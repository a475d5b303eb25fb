"""List the objects of neighbouring partitions with few requests.

The keys of a topic begin with its name and id, then the partition. Hosts and Spark tasks examine the partitions of a
topic in the order of their folders' names. A listing of the topic, read page by page, returns the partitions in this
order.

A listing that is read ahead may be a minute old, and its claims may be older or newer than its segments. The local log
may be newer than the listing. `Observe` uses the listing only if it shows that the partition needs no work, and that no
offset is missing below the local log. Otherwise `Observe` lists the partition again. The functions that upload, delete,
claim or publish use no listing that was read ahead. They call `list_remote_partition` without `listed`.

The listing of a topic may contain partitions that the caller skips, and reading their keys costs CPU. So the first
partitions of a topic are listed one by one, and reading ahead ends if it costs more than it saves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import LIST_PAGE, ObjectInfo, ObjectStore

_FEW = 4  # partitions of a topic that are listed one by one
_KEYS_OF_A_REQUEST = 100  # keys of a page that cost about as much CPU as a request


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The listed objects of one partition, in key order."""

    beside: Sequence[ObjectInfo]  # claims, and `manifests.json`
    segments: Sequence[ObjectInfo]  # objects of segments, in the layout of the location


def list_keys(location: RemoteLocation, partition: TopicIdPartition) -> PartitionKeys:
    """List the claims of a partition before its segments, so that no listed claim is newer than the segment listing."""
    beside = tuple(location.store.list(keys.partition_claims(partition)))
    segments = tuple(location.store.list(keys.partition_segments(partition, local=location.is_local)))
    return PartitionKeys(beside, segments)


@dataclass
class ListingAhead:
    """Finds the objects of partitions in a listing of their topic.

    Only the listing of the last topic is kept: at most one page of claims and one page of segments.
    """

    fresh_seconds: float = 60.0  # greatest age of a listing
    _topic: _Topic | None = None  # the topic of the last partition
    _partition: TopicIdPartition | None = None  # the last one

    def keys_of(self, location: RemoteLocation, partition: TopicIdPartition) -> PartitionKeys | None:
        """Return the objects of a partition, or None if it should be listed alone.

        A partition that is asked for again is listed alone, because the caller may have changed it. So is a partition
        in LocalTieredStorage's layout, whose keys do not begin with the topic and its id.
        """
        if location.is_local or partition == self._partition:
            return None
        self._partition = partition
        return self._topic_of(location.store, partition).keys_of(partition)

    def _topic_of(self, store: ObjectStore, partition: TopicIdPartition) -> _Topic:
        folder = keys.topic_folder(partition)
        if self._topic is None or self._topic.segments.folder != folder:
            claims = _Pages(store, keys.topic_claims(partition), self.fresh_seconds)
            self._topic = _Topic(claims, _Pages(store, folder, self.fresh_seconds))
        return self._topic


@dataclass
class _Topic:
    """The listings of one topic."""

    claims: _Pages
    segments: _Pages
    _asked: int = 0  # partitions

    def keys_of(self, partition: TopicIdPartition) -> PartitionKeys | None:
        self._asked += 1
        if self._asked <= _FEW:
            return None
        beside = self.claims.below(keys.partition_claims(partition))
        if beside is None:
            return None
        segments = self.segments.below(keys.partition_segments(partition))
        if segments is None:
            return None
        return PartitionKeys(beside, segments)


@dataclass
class _Pages:
    """A listing of one folder, which reads a further page only if a caller needs its keys."""

    store: ObjectStore
    folder: str
    fresh_seconds: float
    _spare: int = 2 * LIST_PAGE  # keys of no use that may still be read; each partition adds some
    _rest: Iterator[ObjectInfo] | None = None  # None before the listing begins, and after it failed
    _next: ObjectInfo | None = None  # the first object that was not returned; None at the end
    _after: str = ""  # the last prefix
    _began: float = 0.0  # time.monotonic() of the first request

    def below(self, prefix: str) -> Sequence[ObjectInfo] | None:
        """Return the objects whose keys begin with `prefix`, or None if reading up to them is too expensive."""
        is_fresh = time.monotonic() - self._began < self.fresh_seconds
        if self._rest is None or prefix <= self._after or not is_fresh:
            self._begin(prefix)
        self._after = prefix
        while self._spare >= 0 and self._next is not None and self._next.key < prefix:
            self._spare -= 1
            self._read_on()
        if self._spare < 0:
            return None
        found = []
        while self._next is not None and self._next.key.startswith(prefix):
            found.append(self._next)
            self._read_on()
        self._spare += _KEYS_OF_A_REQUEST
        return found

    def _begin(self, prefix: str) -> None:
        """Begin a new listing at `prefix`. Do nothing if less than a page of unneeded keys may still be read."""
        self._spare -= LIST_PAGE
        if self._spare < 0:
            return
        self._began = time.monotonic()
        self._rest = self.store.list(self.folder, after=prefix)
        self._read_on()

    def _read_on(self) -> None:
        """Read the next object. If the request fails, the next call of `below` begins a new listing."""
        rest, self._rest = self._rest, None
        assert rest is not None, "the listing has begun"
        self._next = next(rest, None)
        self._rest = rest
