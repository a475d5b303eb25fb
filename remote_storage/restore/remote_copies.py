"""What a store holds of a partition's segments, from its objects alone: no warehouse, no `__remote_log_metadata`.

Every object of one segment id is one copy of one segment. A copy counts only if it is complete; see presence.copies.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tiersnap.remote_storage.inventory.attempts import AttemptObjects, group
from tiersnap.remote_storage.inventory.remote_segment import RemoteCopy, UnusableCopy, read_copy
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore

_REQUESTS_AT_ONCE = 8
_KEYS = ObjectKeys()


@dataclass(frozen=True, slots=True)
class RemotePartition:
    """All that a store has of one partition; each in ascending start offset, then segment id.

    Attributes:
        unpublished: whole copies that are restored only when that is asked for.
        why_unpublished: what is known of them.
    """

    partition: TopicIdPartition
    copies: tuple[RemoteCopy, ...]
    unusable: tuple[UnusableCopy, ...]
    unpublished: tuple[RemoteCopy, ...] = ()
    why_unpublished: str = ""

    def taking_all(self) -> RemotePartition:
        """Return it with the unpublished copies among the others."""
        copies = sorted((*self.copies, *self.unpublished), key=lambda copy: (copy.start_offset, copy.segment_id))
        return RemotePartition(self.partition, tuple(copies), self.unusable)

    def refusing(self) -> RemotePartition:
        """Return it with the unpublished copies among the unusable ones."""
        refused = (UnusableCopy(each.segment_id, each.start_offset, self.why_unpublished) for each in self.unpublished)
        unusable = sorted((*self.unusable, *refused), key=lambda each: (each.start_offset, each.segment_id))
        return RemotePartition(self.partition, self.copies, tuple(unusable))


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """Objects by attempt, not looked into yet."""

    partition: TopicIdPartition
    is_local: bool
    attempts: tuple[AttemptObjects, ...]


def list_partitions(
    store: ObjectStore,
    topic: str,
    *,
    topic_id: str | None = None,
    partition: int | None = None,
    local: bool | None = None,
) -> tuple[ListedPartition, ...]:
    """Partitions of `topic` with any object of a segment, by topic id and number.

    Args:
        local: only LocalTieredStorage's objects, or only the others; None takes both.
    """
    listed = []
    for is_local in (False, True) if local is None else (local,):
        found = group(_KEYS, store.list(_prefix(topic, topic_id, partition, local=is_local)), local=is_local)
        for at, attempts in found.items():
            if (at.topic, at.topic_id) == (topic, topic_id or at.topic_id) and partition in (None, at.partition):
                listed.append(ListedPartition(at, is_local, attempts))
    return tuple(sorted(listed, key=_order))


def _order(listed: ListedPartition) -> tuple[str, int, bool]:
    return listed.partition.topic_id or "", listed.partition.partition, listed.is_local


def _prefix(topic: str, topic_id: str | None, partition: int | None, *, local: bool) -> str:
    if topic_id is None or partition is None:
        return _KEYS.topic(topic, local=local)
    return _KEYS.partition_segments(TopicIdPartition(topic, topic_id, partition), local=local)


def read_copies(store: ObjectStore, listed: ListedPartition) -> RemotePartition:
    """Look into what was listed: which copies are complete, and what offsets they hold.

    A copy that the plugin compressed is read, one that it encrypted is unusable.
    """

    def read(attempt: AttemptObjects) -> RemoteCopy | UnusableCopy:
        found = read_copy(store, listed.partition, attempt)
        if isinstance(found, RemoteCopy) and found.is_encrypted:
            problem = "the segment is encrypted by the plugin; a broker that has its key reads it"
            return UnusableCopy(attempt.segment_id, attempt.start_offset, problem)
        return found

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        results = list(pool.map(read, listed.attempts))
    return RemotePartition(
        listed.partition,
        tuple(each for each in results if isinstance(each, RemoteCopy)),
        tuple(each for each in results if isinstance(each, UnusableCopy)),
    )
