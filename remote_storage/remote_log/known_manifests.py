"""Store the rsm-manifests of a partition in one object. A later run reads one object instead of thousands.

    claims/<topic>-<topic id>/<partition>/manifests.json
    {"version":1,"manifests":[{"segmentId":"…","size":612,"etag":"…","content":{…}}, …]}

`content` is the rsm-manifest itself. An entry is used only if a listing shows a manifest object with this size and
ETag. If `manifests.json` is damaged or missing, each manifest object is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

import msgspec

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys, rsm_manifest
from tiersnap.remote_storage.layouts.rsm_manifest import RsmManifest
from tiersnap.remote_storage.layouts.stored_json import Count, SegmentId, Stored, StoredObject, Text
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.segment_objects import by_id
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES, read_decoded
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError, TiersnapError

_log = logging.getLogger(__name__)

FEW = 64
"""The greatest number of manifest objects that are read before `manifests.json` is read."""
WORTH_WRITING = 8
"""`manifests.json` is written only for at least this number of new manifests."""
_BYTES_OF_A_REQUEST = 64 << 10  # bytes of `manifests.json` that take about as long as one request
_SHARE = 16  # rewrite `manifests.json` once a sixteenth of it is new, so a growing partition rarely rewrites it


class _StoredManifest(Stored, frozen=True, kw_only=True):
    segment_id: SegmentId
    size: Count
    etag: Text
    content: msgspec.Raw


class _StoredManifests(StoredObject, frozen=True, kw_only=True):
    what = "manifests"
    limit = 256 << 20  # about one kilobyte per segment

    manifests: tuple[_StoredManifest, ...]


@dataclass(slots=True)
class KnownManifests:
    """The manifests of one partition that this run or an earlier run has read. Threads may share this object.

    Attributes:
        listed: segment ids in the last listing of the partition. `save` drops the manifests of other segments.
        size: bytes of `manifests.json` in this listing, 0 if it does not exist; None before a listing.
    """

    store: ObjectStore
    partition: TopicIdPartition
    listed: Collection[str] | None = None
    size: int | None = None
    _new: dict[str, _StoredManifest] = field(default_factory=dict)
    _kept: dict[str, _StoredManifest] | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)
    _damaged: dict[tuple[str, int, int, str], CorruptDataError] = field(default_factory=dict)

    def read(self, segment_id: str, listed: ObjectInfo) -> RsmManifest:
        """Return a listed manifest. If it was read earlier, no request for it is made.

        Raises:
            ObjectNotFoundError: the manifest was deleted.
            CorruptDataError: the manifest is damaged.
        """
        if (kept := self._known(segment_id, listed)) is not None:
            with suppress(CorruptDataError):
                return rsm_manifest.decode(bytes(kept.content), name=self.store.uri + listed.key)
        identity = listed.key, listed.size, listed.modified, listed.etag
        if identity in self._damaged:
            raise self._damaged[identity]
        try:
            manifest, content = read_decoded(self.store, listed.key, _decode, limit=MANIFEST_BYTES)
        except CorruptDataError as error:
            self._damaged[identity] = error
            raise
        self.add(segment_id, listed.etag, content)
        return manifest

    def has(self, segment_id: str, listed: ObjectInfo) -> bool:
        """Return whether the manifest was read earlier, so that `read` makes no request."""
        return self._known(segment_id, listed) is not None

    def _known(self, segment_id: str, listed: ObjectInfo) -> _StoredManifest | None:
        kept = self._new.get(segment_id)
        if kept is None and len(self._new) >= reads_before(self.size):
            kept = self._load().get(segment_id)
        return kept if kept is not None and (kept.size, kept.etag) == (listed.size, listed.etag) else None

    def add(self, segment_id: str, etag: str, content: bytes) -> None:
        """Add a stored manifest. Ignore a manifest without an ETag."""
        if etag:
            self._new[segment_id] = _StoredManifest(
                segment_id=segment_id, size=len(content), etag=etag, content=msgspec.Raw(content)
            )

    def save(self) -> None:
        """Write `manifests.json` if enough manifests are new. Ignore a failure: it only makes the next run slower."""
        if len(self._new) < WORTH_WRITING or len(self._new) * _SHARE < len(self._load()):
            return
        content = _StoredManifests(manifests=tuple({**self._still_listed(), **self._new}.values())).encode()
        try:
            self.store.replace(keys.manifests(self.partition), content)
        except TiersnapError as error:
            _log.info("not remembered: %s", error.message)

    def _still_listed(self) -> dict[str, _StoredManifest]:
        kept = self._load()
        if self.listed is None:
            return kept
        return {name: each for name, each in kept.items() if name in self.listed}

    def _load(self) -> dict[str, _StoredManifest]:
        with self._lock:
            if self._kept is None:
                self._kept = by_id(self._stored())
            return self._kept

    def _stored(self) -> Iterable[_StoredManifest]:
        key = keys.manifests(self.partition)
        if self.size == 0:
            return ()
        try:
            data = self.store.get(key, limit=_StoredManifests.limit)
            return _StoredManifests.decode(data, name=self.store.uri + key).manifests
        except ObjectNotFoundError:
            return ()
        except (CorruptDataError, NewerFormatError) as error:
            _log.info("manifests are read one by one: %s", error.message)
            return ()


def reads_before(size: int | None) -> int:
    """Return how many manifest objects to read one by one before `manifests.json` is read.

    The number is 0 for a small `manifests.json`. Reading a large `manifests.json` takes longer than reading a few
    manifest objects.

    Args:
        size: see KnownManifests.
    """
    return FEW if size is None else min(FEW, size // _BYTES_OF_A_REQUEST)


def _decode(data: bytes, *, name: str) -> tuple[RsmManifest, bytes]:
    return rsm_manifest.decode(data, name=name), data
