"""Find out from rsm-manifests whether the Aiven plugin encrypts remote segments.

tiersnap has no encryption keys, so it uploads plain text. If the brokers encrypt, tiersnap refuses the upload. The
partition's own manifests decide. If the partition has none, a few manifests of the topic are read. If the topic has
none either, a few manifests of the store are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys, rsm_manifest
from tiersnap.remote_storage.layouts.keys import CLAIMS, LOCAL_TIERED_STORAGE, SNAPSHOTS, KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.stores.object_store import LIST_PAGE, ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES, read_decoded
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.replay.remote_listing import Encryption

_READ = 4  # the newest manifests among the listed objects
_NO_SEGMENTS = (CLAIMS, SNAPSHOTS, LOCAL_TIERED_STORAGE)


@dataclass(frozen=True, slots=True)
class Shown:
    """The encryption of segments, according to their manifests.

    `manifest` is the key of an encrypted segment's manifest, or empty.
    """

    encryption: Encryption
    manifest: str = ""


PLAIN, UNKNOWN = Shown(Encryption.PLAIN), Shown(Encryption.UNKNOWN)


@dataclass(frozen=True, slots=True)
class EncryptionLook:
    """Reads the manifests of a partition, then of its topic, then of the store.

    The results for topics and for the store are cached.
    """

    store: ObjectStore
    _known: dict[str, Shown] = field(default_factory=dict)

    def of_found(self, found: RemoteInventory) -> Shown:
        """Return the encryption of a listed partition."""
        return self._of(found.partition.topic, shown_by_partition(found))

    def of_partition(self, partition: TopicIdPartition) -> Shown:
        """Return the encryption of a partition from a listing and at most four of its newest manifests."""
        listed = self.store.list(keys.partition_segments(partition, local=False))
        return self._of(partition.topic, _shown_by(self.store, listed))

    def _of(self, topic: str, shown: Shown) -> Shown:
        for name in (topic, ""):
            if shown != UNKNOWN:
                return shown
            if name not in self._known:
                self._known[name] = self._shown_by_others(name)
            shown = self._known[name]
        return shown

    def _shown_by_others(self, topic: str) -> Shown:
        if topic:
            return shown_by_topic(self.store, topic)
        return shown_by_store(self.store)


def shown_by_partition(found: RemoteInventory) -> Shown:
    """Return the encryption of a partition, according to the manifests in its inventory. No request is made."""
    if not found.segments:
        return UNKNOWN
    for segment in reversed(found.segments):
        if segment.is_encrypted:
            return Shown(Encryption.ENCRYPTED, segment.keys[0])
    return PLAIN


def shown_by_topic(store: ObjectStore, topic: str) -> Shown:
    """Return the encryption of a topic. Read at most four manifests: the newest ones in one page of its listing."""
    listed = []
    for info in islice(store.list(keys.topic(topic)), LIST_PAGE):
        key = keys.recognise(info.key)
        if key is not None and key.partition.topic == topic:
            listed.append(info)
    return _shown_by(store, listed)


def shown_by_store(store: ObjectStore) -> Shown:
    """Return the encryption of a store. Read at most four manifests: the newest ones among its first 1,000 objects."""
    return _shown_by(store, islice(_beside_ours(store), LIST_PAGE))


def _beside_ours(store: ObjectStore) -> Iterator[ObjectInfo]:
    skipped = tuple(f"{name}/" for name in _NO_SEGMENTS)
    after: str | None = ""
    while after is not None:
        listed, after = store.list(after=after), None
        for info in listed:
            folder = next((each for each in skipped if info.key.startswith(each)), None)
            if folder is not None:
                after = f"{folder}~"  # "~" sorts after every character of a key
                break
            yield info


def _shown_by(store: ObjectStore, listed: Iterable[ObjectInfo]) -> Shown:
    manifests = [info for info in listed if info.key.endswith(KeyKind.RSM_MANIFEST.suffix)]
    seen = UNKNOWN
    for info in sorted(manifests, key=lambda each: each.modified, reverse=True)[:_READ]:
        try:
            manifest = read_decoded(store, info.key, rsm_manifest.decode, limit=MANIFEST_BYTES)
        except (CorruptDataError, ObjectNotFoundError):
            continue
        if manifest.is_encrypted:
            return Shown(Encryption.ENCRYPTED, info.key)
        seen = PLAIN
    return seen
