"""Find and remove the orphans of a store, partition by partition. Objects are listed before records are read.

If the removal is killed, the same command removes the rest. Unfinished uploads, temporary files and probes (see
store_leftovers) are orphans, too. If an unfinished upload is for a partition of another cluster, its removal is
refused. An unfinished upload of the Aiven plugin is reported and never aborted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.remote_log.partition_objects import (
    PartitionObjects,
    list_all,
    list_partition_objects,
    read_claims,
)
from tiersnap.remote_storage.remote_log.remote_segment import read_segment
from tiersnap.remote_storage.remote_log.snapshot_objects import readable_manifests
from tiersnap.remote_storage.retire.attempt_log import read_attempt_log
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition, KnownToCluster
from tiersnap.remote_storage.retire.orphan_kinds import Fate, Orphan, OrphanKind, with_action
from tiersnap.remote_storage.retire.orphans import (
    Aged,
    candidates,
    judge_attempts,
    judge_attempts_of_brokers,
    judge_rest,
    judge_snapshots,
    judge_young,
    young_candidates,
)
from tiersnap.remote_storage.retire.partition_leftovers import delete_visible_first
from tiersnap.remote_storage.retire.remaining import Remaining
from tiersnap.remote_storage.retire.store_leftovers import (
    UploadOfSegment,
    judge_saved_configs,
    old_probes,
    old_uploads,
    uploads_of_segments,
)
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectInfo, ObjectStore
from tiersnap.remote_storage.verify.compare_whole import read_remaining
from tiersnap.snapshot.errors import CorruptDataError, GateError, TiersnapError, failure

_PARTITIONS_AT_ONCE = 64
_LAST = {OrphanKind.CLAIM, OrphanKind.KNOWN_MANIFESTS, OrphanKind.CLUSTER}
"""Kinds that are removed last, because they identify the other objects of the partition."""
_log = logging.getLogger(__name__)


def unfinished(store: ObjectStore, aged: Aged, cluster_id: str, is_wanted: Callable[[str], bool]) -> Iterator[Orphan]:
    """Yield the unfinished uploads of wanted topics, and the temporary files and probes, which belong to no topic.

    If an orphan is too young, its action is WAIT. Young uploads of the plugin are left out, because they may be
    running.
    """
    for probe in old_probes(store, aged.now, -1):
        orphan = Orphan(OrphanKind.PROBE, Fate.REMOVE, "a probe of the store left the object", (probe.key,), probe.size)
        yield orphan if aged.is_old(probe.modified) else aged.waiting(orphan, probe.modified)
    others = []
    for upload in old_uploads(store, -1):
        if upload.is_ours:
            orphan = Orphan(
                OrphanKind.FILE, Fate.REMOVE, "a killed process left the file", (upload.key,), upload=upload
            )
            yield orphan if upload.age > aged.older_than else aged.waiting(orphan, upload.started)
        else:
            others.append(upload)
    for each in uploads_of_segments(store, others, is_wanted):
        orphan = _of_segment(store, each, cluster_id)
        if each.upload.age > aged.older_than:
            yield orphan
        elif orphan.action is Fate.REMOVE:
            yield aged.waiting(orphan, each.upload.started)


def _of_segment(store: ObjectStore, each: UploadOfSegment, cluster_id: str) -> Orphan:
    action, reason = Fate.REMOVE, "a killed copy attempt left the upload"
    if each.claim is None:
        action, reason = Fate.LEAVE, "tiersnap has no claim for this upload"
    elif (theirs := _cluster_id(store, each)) not in (None, cluster_id):
        action, reason = Fate.REFUSE, f"the upload comes from the cluster {theirs}, but this cluster is {cluster_id}"
    return Orphan(
        OrphanKind.UPLOAD, action, reason, (each.upload.key,), 0, each.partition, each.segment_id, each.upload
    )


def _cluster_id(store: ObjectStore, each: UploadOfSegment) -> str | None:
    try:
        return read_cluster_id(store, each.partition)
    except CorruptDataError:
        return None


def find_orphans(
    store: ObjectStore, cluster: KnownToCluster, is_wanted: Callable[[str], bool], *, older_than: int
) -> Iterator[Orphan]:
    """Yield the orphans of a store: objects of partitions, saved configs, unfinished uploads, files and probes.

    Topics that `is_wanted` rejects are skipped. Nothing is changed.

    Args:
        older_than: minimum age of removable objects in ms, by the store's clock.

    Raises:
        MetadataTopicAbsentError, BrokerUnavailableError: the cluster's records cannot be read.
    """
    aged = Aged(store.now(), older_than)
    wanted, records = list_all(store, is_wanted)
    with cluster.reading(wanted) as ask:
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            some = [list_partition_objects(store, each) for each in wanted[start : start + _PARTITIONS_AT_ONCE]]
            known = ask(each.partition for each in some)
            for stored in some:
                nothing = KnownPartition(stored.partition, cluster.cluster_id)
                yield from orphans_of(store, stored, known.get(stored.partition, nothing), aged)

    def ask_about(partitions: Iterable[TopicIdPartition]) -> Mapping[TopicIdPartition, KnownPartition]:
        named = list(partitions)
        with cluster.reading(named) as ask:
            return ask(named)

    yield from judge_saved_configs(store, records, aged, ask_about)
    yield from unfinished(store, aged, cluster.cluster_id, is_wanted)


def orphans_of(store: ObjectStore, stored: PartitionObjects, known: KnownPartition, aged: Aged) -> Iterator[Orphan]:
    """Yield the orphans of one partition.

    If the removal from this partition is refused, yield one PARTITION orphan instead of the removable orphans.
    """
    listed_at = (*candidates(stored, known, aged), *young_candidates(stored, known, aged))
    offsets = frozenset(each.start_offset for each in listed_at)
    claims = read_claims(store, stored, offsets)
    others = Remaining(
        sorted(stored.attempts, key=lambda each: each.start_offset),
        known,
        partial(read_segment, store),
        lambda segment: read_remaining(store, segment, aged.now),
        partial(read_attempt_log, store),
    )
    found = list(judge_attempts(stored, aged, claims, others))
    yield from judge_attempts_of_brokers(stored, aged, others)
    refusal = known.refusal(stored.cluster_id)
    if refusal:
        yield from _of_refused_partition(stored.partition, refusal, found)
        return
    manifests = list(readable_manifests(store, stored.manifests.values()))
    found += judge_snapshots(stored, known, aged, manifests, is_ours(store))
    yield from found
    yield from judge_young(stored, known, aged, claims)
    yield from judge_rest(stored, known, aged, _keys_to_remove(found))


def _keys_to_remove(found: Iterable[Orphan]) -> set[str]:
    found_keys: set[str] = set()
    for each in with_action(found, Fate.REMOVE):
        found_keys.update(each.keys)
    return found_keys


def is_ours(store: ObjectStore) -> Callable[[ObjectInfo], bool]:
    """Return a function that reads a snapshot object's user metadata, and returns whether tiersnap wrote the object."""

    def ask_of(info: ObjectInfo) -> bool:
        described = store.head(info.key)
        return described is not None and "run-id" in described.metadata

    return ask_of


def _of_refused_partition(partition: TopicIdPartition, reason: str, found: Sequence[Orphan]) -> Iterator[Orphan]:
    """Yield the attempts with the action LEAVE, then one PARTITION orphan with the objects of removable attempts."""
    yield from with_action(found, Fate.LEAVE)
    if removable := list(with_action(found, Fate.REMOVE)):
        keys = tuple(chain.from_iterable(each.keys for each in removable))
        size = sum(each.size_bytes for each in removable)
        yield Orphan(OrphanKind.PARTITION, Fate.REFUSE, reason, keys, size, partition)


@dataclass(frozen=True, slots=True)
class OrphansOutcome:
    """All orphans, and the removed ones (`done`) with their failures. For a plan, `done` is empty."""

    found: Sequence[Orphan]
    done: Sequence[tuple[Orphan, tuple[DeleteFailure, ...]]] = ()

    @property
    def wanted(self) -> list[Orphan]:
        """Return the orphans that may be removed."""
        return with_action(self.found, Fate.REMOVE)

    @property
    def refused(self) -> list[Orphan]:
        """Return the refused orphans. Their `reason` tells the user why."""
        return with_action(self.found, Fate.REFUSE)

    @property
    def waiting(self) -> list[Orphan]:
        """Return the orphans that are too young."""
        return with_action(self.found, Fate.WAIT)

    @property
    def failures(self) -> list[DeleteFailure]:
        """Return the failures to delete objects."""
        found: list[DeleteFailure] = []
        for _, failures in self.done:
            found += failures
        return found

    @property
    def left(self) -> list[Orphan]:
        """Return the orphans that remain in the store, without those that are too young."""
        gone = {id(orphan) for orphan, failures in self.done if not failures}
        gone.update(map(id, self.waiting))
        return [each for each in self.found if id(each) not in gone]

    def errors(self) -> Iterator[TiersnapError]:
        """Yield the refusals, and the failures to delete objects."""
        for orphan in self.refused:
            yield GateError(f"{orphan.partition}: {orphan.reason}")
        for each in self.failures:
            yield failure(f"{each.key}: {each.reason}", is_transient=False)


def remove(store: ObjectStore, orphans: Iterable[Orphan]) -> Iterator[tuple[Orphan, tuple[DeleteFailure, ...]]]:
    """Remove the removable orphans, and yield each with its failures.

    If an object of a partition cannot be deleted, the claims and `cluster.json` of the partition are kept.
    """
    failed = set()
    for orphan in orphans:
        if orphan.action is not Fate.REMOVE or (orphan.kind in _LAST and orphan.partition in failed):
            continue
        failures = _remove(store, orphan)
        _log.info("removed %s %s of %s, %d failures", orphan.kind, orphan.keys[:1], orphan.partition, len(failures))
        if failures:
            failed.add(orphan.partition)
        yield orphan, failures


def _remove(store: ObjectStore, orphan: Orphan) -> tuple[DeleteFailure, ...]:
    if orphan.upload is not None:
        try:
            store.abort_upload(orphan.upload)
        except TiersnapError as error:
            return (DeleteFailure(orphan.upload.key, error.message),)
        return ()
    return delete_visible_first(store, orphan.keys)
