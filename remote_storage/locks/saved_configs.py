"""The configs that a pause of copying overrode and must put back: one object per topic, beside the claims.

    claims/<topic>-<topic id>/unblock.json
    {"version":1,"clusterId":"…","topic":"…","topicId":"…","partitions":[0, …],
     "before":{"remote.log.copy.disable":null, …},"process":{"host":"…","pid":1,"processStart":"…"}|null}

null is a setting that the topic itself did not have; only what a pause ever overrides is taken for such a record
(OVERRIDES), as whoever writes to the bucket may write one. The process is who is at it: two runs that switched one
topic on and off would each publish while the other has switched copying on. A record belongs to nobody once its process
is certainly gone, or after STALE_AFTER_MS. Of a topic that was deleted nothing is to be put back any more: `tiersnap
maintain remove-orphans` then removes the object.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, TypeVar

from msgspec import Meta, structs

from tiersnap.remote_storage.errors import ObjectChangedError, UnblockHeldError
from tiersnap.remote_storage.layouts import keys, stored_json
from tiersnap.remote_storage.layouts.stored_json import Count, StoredObject
from tiersnap.remote_storage.locks.process import Process, is_gone, this_process
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE, OVERRIDES
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError

_log = logging.getLogger(__name__)

_LARGEST_RECORD = 1 << 20  # bytes
_OTHERS_SECONDS = 180.0  # a run is at a topic for a minute or two
_POLL_SECONDS = 2.0
_WHAT = "saved configs of a topic"
_LOOK = f"see with kafka-configs --describe whether {COPY_DISABLE} is set, then delete the object"
T = TypeVar("T")
STALE_AFTER_MS = 600_000
"""Longer than any topic is switched off, and than any round of switching and watching."""


class SavedConfigs(StoredObject, frozen=True, kw_only=True):
    """The saved configs of a topic whose partitions are being freed; see the module."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: tuple[Count, ...]
    before: dict[str, Annotated[str, Meta(pattern="^(true|false|-?[0-9]{1,19})$")] | None]
    process: Process | None  # of the run that frees them; None if no run does

    @classmethod
    def of(
        cls, cluster_id: str, topic: str, topic_id: str, partitions: tuple[int, ...], before: Mapping[str, str | None]
    ) -> SavedConfigs:
        """Return the configs of a topic that no run frees yet."""
        return cls(
            cluster_id=cluster_id,
            topic=topic,
            topic_id=topic_id,
            partitions=partitions,
            before=dict(before),
            process=None,
        )

    def encode(self) -> bytes:
        """Return one line of JSON."""
        return stored_json.encode(self)


class SavedConfigsStore:
    """The records in one place of remote storage; what is written replaces what this object has found, and no other."""

    def __init__(self, store: ObjectStore, *, process: Process | None = None) -> None:
        self._store, self._process = store, process or this_process()
        self._etags: dict[str, str] = {}
        self._mine: dict[str, SavedConfigs] = {}
        self._noted: dict[str, SavedConfigs] = {}

    def find(self, topic_ids: Mapping[str, str], cluster_id: str) -> list[SavedConfigs]:
        """Return the saved configs of a cluster's topics, given with their ids; one request per topic.

        Raises:
            UnblockHeldError: another run is at one of them.
            CorruptDataError: what is there is no record of that topic, or of another cluster.
        """
        found = in_parallel(lambda topic: self._find(topic, topic_ids[topic], cluster_id), sorted(topic_ids))
        return [saved for saved in found if saved is not None]

    def noted(self, topic: str, topic_id: str) -> SavedConfigs | None:
        """Return the saved configs of a topic that this object read or wrote last, and did not drop."""
        return self._noted.get(keys.unblock(topic, topic_id))

    def _find(self, topic: str, topic_id: str, cluster_id: str) -> SavedConfigs | None:
        key = keys.unblock(topic, topic_id)

        def decode(data: bytes, *, name: str) -> SavedConfigs:
            saved = decode_saved_configs(data, topic, topic_id, name=name)
            if saved.cluster_id != cluster_id:
                raise _no_record(name, f"tells of cluster {saved.cluster_id[:80]}, this is {cluster_id}")
            return saved

        found = stored_json.read(self._store, key, decode, limit=_LARGEST_RECORD)
        if found is None:
            return None
        saved, holder = found.content, found.content.process
        is_another = holder is not None and holder != self._process and not is_gone(holder)
        if is_another and found.age <= STALE_AFTER_MS:
            raise self._held(saved, found.age)
        self._etags[key], self._noted[key] = found.etag, saved
        return saved

    def put(self, saved: SavedConfigs) -> None:
        """Record a topic as this process's, durably; again says that it is still at it.

        Raises:
            UnblockHeldError: another run has recorded it since.
        """
        key = keys.unblock(saved.topic, saved.topic_id)
        data = structs.replace(saved, process=self._process).encode()
        try:
            etag = stored_json.write(self._store, key, data, self._etags.get(key))
        except ObjectChangedError as error:
            for known in (self._etags, self._mine, self._noted):
                known.pop(key, None)
            raise self._held(saved, 0) from error
        self._etags[key], self._mine[key], self._noted[key] = etag, saved, saved
        _log.info("recorded %s%s before its settings are changed", self._store.uri, key)

    def drop(self, saved: SavedConfigs) -> None:
        """Forget a topic, unless another run has recorded it by now. Raises TransientError: it could not be deleted."""
        key = keys.unblock(saved.topic, saved.topic_id)
        for known in (self._mine, self._noted):
            known.pop(key, None)
        found, etag = self._store.head(key), self._etags.pop(key, None)
        if found is None or found.etag != etag:
            return
        for failure in self._store.delete([key]):
            raise TransientError(
                f"{self._store.uri}{key} could not be deleted: {failure.reason}",
                hint="allow s3:DeleteObject below the prefix, then run the same command again",
            )

    def release(self) -> None:
        """Release the records that this process wrote and did not delete; if that fails, their age says it."""
        for key, saved in self._mine.items():
            with suppress(TiersnapError):
                self._store.replace_if(key, saved.encode(), self._etags[key])
        self._mine.clear()

    def _held(self, saved: SavedConfigs, age: int) -> UnblockHeldError:
        key, process = keys.unblock(saved.topic, saved.topic_id), saved.process
        who = f"another run of tiersnap{f' on {process.host} (pid {process.pid})' if process else ''}"
        return UnblockHeldError(
            f"{self._store.uri}{key}: {who} is at {saved.topic}",
            hint="wait for it, then run the same command again; if it is dead, its record counts for "
            f"{max(STALE_AFTER_MS - age, 0) // 1000} s more",
        )


def when_nobody_is_at_it(act: Callable[[], T], talk: Callable[[str], None]) -> T:
    """Return what `act` returns, once it does not raise UnblockHeldError; raise that after three minutes."""
    deadline, told = time.monotonic() + _OTHERS_SECONDS, False
    while True:
        try:
            return act()
        except UnblockHeldError as held:
            if time.monotonic() > deadline:
                raise
            if not told:
                _log.debug("waiting up to %.0f s for another run", _OTHERS_SECONDS)
                talk(f"{held.message}: waiting for it")
            told = True
            time.sleep(_POLL_SECONDS)


def decode_saved_configs(data: bytes, topic: str, topic_id: str, *, name: str) -> SavedConfigs:
    """The saved configs of that topic, and of no other; raises as `stored_json.decode`. `name` stands in messages."""
    found = stored_json.decode(data, SavedConfigs, name=name, what=_WHAT, limit=_LARGEST_RECORD, hint=_LOOK)
    if (found.topic, found.topic_id) != (topic, topic_id):
        raise _no_record(name, f"tells of {found.topic[:80]}")
    others = sorted(found.before.keys() - OVERRIDES.keys())
    if others:
        raise _no_record(name, f"{others[0][:80]} is no setting that it overrides")
    return found


def _no_record(name: str, why: str) -> CorruptDataError:
    return stored_json.corrupt(name, _WHAT, why, _LOOK)
