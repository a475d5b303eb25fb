"""Remove the invisible leftovers of killed processes: multipart uploads, temporary files and probes.

Only tiersnap's leftovers are removed: uploads of attempts that a claim names, files with tiersnap's mark in their name,
and objects below `claims/probe-`. An upload older than a grace period has ended, because its attempt must have given up
long before. An attempt that got no answer to CreateMultipartUpload begins another upload and never uses the first one.
Uploads of the Aiven plugin are kept.

Saved configs are leftovers if their topic was deleted. Saved configs of a live topic are kept at any age, because the
next `unblock` restores the topic's configs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim_naming, claimed_segments
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, decode_saved_configs
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.partition_objects import StoredRecord
from tiersnap.remote_storage.retire.known_to_cluster import Ask, KnownPartition
from tiersnap.remote_storage.retire.orphan_kinds import Fate, Orphan, OrphanKind
from tiersnap.remote_storage.retire.orphans import TOPIC_DELETED, Aged
from tiersnap.remote_storage.retire.partition_leftovers import GRACE_MS
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore, UnfinishedUpload
from tiersnap.remote_storage.stores.probe import PROBES
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES, read_decoded
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError, TiersnapError
from tiersnap.snapshot.units import count_of

_log = logging.getLogger(__name__)
_NOT_ALLOWED = (400, 403, 405, 501)


@dataclass(frozen=True, slots=True)
class UploadOfSegment:
    """An unfinished multipart upload of an object of a segment. `claim` names the segment id, or is None."""

    upload: UnfinishedUpload
    partition: TopicIdPartition
    segment_id: str
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class SweptStore:
    """The number of removed leftovers of each kind."""

    probes: int = 0
    files: int = 0
    uploads: int = 0

    def __str__(self) -> str:
        named = {"probe": self.probes, "temporary file": self.files, "unfinished upload": self.uploads}
        counts = (count_of(count, kind) for kind, count in named.items() if count)
        return ", ".join(counts)


def old_probes(store: ObjectStore, now: int, older_than: int) -> list[ObjectInfo]:
    """Return the probes that are older than `older_than` ms."""
    return [probe for probe in store.list(PROBES) if now - probe.modified > older_than]


def old_uploads(store: ObjectStore, older_than: int, prefix: str = "") -> list[UnfinishedUpload]:
    """Return the unfinished uploads that are older than `older_than` ms.

    Empty if the store does not allow the listing.
    """
    try:
        return [upload for upload in store.unfinished_uploads(prefix) if upload.age > older_than]
    except RemoteStorageError as error:
        if error.attrs.get("status") not in _NOT_ALLOWED:
            raise
        _log.info("unfinished uploads cannot be listed: %s", error.message)
        return []


def uploads_of_segments(
    store: ObjectStore, uploads: Iterable[UnfinishedUpload], is_wanted: Callable[[str], bool]
) -> Iterator[UploadOfSegment]:
    """Yield the uploads of segments of the topics that `is_wanted` accepts.

    Requests: one listing of claims per partition, and one read for each claim at the offset of an upload.
    """
    claimed: dict[TopicIdPartition, tuple[ClaimedSegment, ...]] = {}
    for upload in uploads:
        named = _named_segment(upload)
        if named is None:
            continue
        partition, offset, segment_id = named
        if not is_wanted(partition.topic):
            continue
        if partition not in claimed:
            claimed[partition] = tuple(claimed_segments(store, partition))
        yield UploadOfSegment(
            upload, partition, segment_id, claim_naming(store, claimed[partition], offset, segment_id)
        )


def _named_segment(upload: UnfinishedUpload) -> tuple[TopicIdPartition, int, str] | None:
    """Return partition, start offset and segment id from the key of an upload, or None for any other key."""
    key = keys.recognise(upload.key)
    if key is None or key.offset is None or key.segment_id is None:
        return None
    return key.partition, key.offset, key.segment_id


def abort_uploads_of(store: ObjectStore, stem: str, segment_id: str) -> None:
    """Abort all unfinished uploads of a segment. `stem` is the prefix of its keys. Failures are logged."""
    count = _abort(store, [each for each in old_uploads(store, -1, stem) if segment_id in each.key])
    _log.debug("aborted %d unfinished uploads of %s", count, segment_id)


def sweep_store(store: ObjectStore, is_wanted: Callable[[str], bool]) -> SweptStore:
    """Remove tiersnap's probes, temporary files and unfinished uploads that are older than GRACE_MS.

    Needs two listings.

    Failures are logged, and the next run tries again.

    Args:
        is_wanted: returns whether the uploads of a topic are aborted.
    """
    probes = _delete_probes(store)
    files: list[UnfinishedUpload] = []
    others: list[UnfinishedUpload] = []
    for upload in old_uploads(store, GRACE_MS):
        if upload.is_ours:
            files.append(upload)
        else:
            others.append(upload)
    claimed = _claimed_uploads(store, others, is_wanted)
    done = SweptStore(probes, _abort(store, files), _abort(store, claimed))
    _log.debug("removed leftovers of killed processes from %s: %s", store.uri, done)
    return done


def _delete_probes(store: ObjectStore) -> int:
    """Delete old probes, and return the number of deleted probes."""
    probes = [probe.key for probe in old_probes(store, store.now(), GRACE_MS)]
    if not probes:
        return 0
    failures = store.delete(probes)
    for failed in failures:
        _log.warning("cannot delete %s%s: %s", store.uri, failed.key, failed.reason)
    return len(probes) - len(failures)


def _claimed_uploads(
    store: ObjectStore, uploads: Iterable[UnfinishedUpload], is_wanted: Callable[[str], bool]
) -> list[UnfinishedUpload]:
    """Return the uploads of attempts that a claim names."""
    return [each.upload for each in uploads_of_segments(store, uploads, is_wanted) if each.claim is not None]


def _abort(store: ObjectStore, uploads: Iterable[UnfinishedUpload]) -> int:
    count = 0
    for upload in uploads:
        try:
            store.abort_upload(upload)
            count += 1
        except TiersnapError as error:
            _log.warning("cannot remove the unfinished %s%s: %s", store.uri, upload.key, error.message)
    return count


def judge_saved_configs(store: ObjectStore, records: Iterable[StoredRecord], aged: Aged, ask: Ask) -> Iterator[Orphan]:
    """Yield saved configs that may be removed, or that cannot be judged.

    Args:
        ask: returns the cluster's records of partitions.
    """
    for record in records:
        if not aged.is_old(record.info.modified):
            continue
        try:
            decode = partial(decode_saved_configs, topic=record.topic, topic_id=record.topic_id)
            saved = read_decoded(store, record.info.key, decode, limit=MANIFEST_BYTES)
        except ObjectNotFoundError:
            continue  # the run that wrote the object has ended meanwhile
        except CorruptDataError as error:
            yield _orphan(record, Fate.LEAVE, error.message)
            continue
        known = ask(TopicIdPartition(saved.topic, saved.topic_id, number) for number in saved.partitions)
        if not any(each.is_live for each in known.values()):
            yield _of_deleted_topic(record, _refusal(saved, known))


def _of_deleted_topic(record: StoredRecord, refusal: str) -> Orphan:
    if refusal:
        return _orphan(record, Fate.REFUSE, refusal)
    return _orphan(record, Fate.REMOVE, TOPIC_DELETED)


def _refusal(saved: SavedConfigs, known: Mapping[TopicIdPartition, KnownPartition]) -> str:
    """Return the reason why the saved configs of a topic may not be removed; "" if they may."""
    if not known:
        return "the file names no partition"
    refusals = [each.refusal(saved.cluster_id) for each in known.values()]
    return next(filter(None, refusals), "")


def _orphan(record: StoredRecord, action: Fate, reason: str) -> Orphan:
    partition = TopicIdPartition(record.topic, record.topic_id, 0)
    return Orphan(OrphanKind.UNBLOCK, action, reason, (record.info.key,), record.info.size, partition)
