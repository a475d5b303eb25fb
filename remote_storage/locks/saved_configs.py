"""The saved configs of topics whose copying is paused: the values to restore, one object per topic.

    claims/<topic>-<topic id>/unblock.json
    {"version":1,"clusterId":"…","topic":"…","topicId":"…","partitions":[0, …],
     "before":{"remote.log.copy.disable":null, …},"process":{"host":"…","pid":1,"processStart":"…"}|null}

null means that the topic itself did not set the config. Any user with write access to the bucket can write such an
object. Therefore tiersnap refuses an object with any config that a pause does not override (see OVERRIDES).

While a process holds the topic, no other run may pause it. Otherwise one run could publish after another run has
enabled copying again. The hold ends with the process, or STALE_AFTER_MS after its last write. A deleted topic has no
configs to restore, and `tiersnap maintain remove-orphans` removes its object.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, TypeVar

from msgspec import Meta, structs

from tiersnap.remote_storage.errors import ObjectChangedError, UnblockHeldError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.stored_json import Count, StoredObject
from tiersnap.remote_storage.locks import lock_object
from tiersnap.remote_storage.locks.lock_object import why_over
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE, OVERRIDES
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import TiersnapError, TransientError

_log = logging.getLogger(__name__)

_OTHERS_SECONDS = 180.0  # a run usually holds a topic for one or two minutes
_POLL_SECONDS = 2.0
T = TypeVar("T")
STALE_AFTER_MS = 600_000
"""Longer than any pause of a topic, and longer than any round of pausing and watching."""


class SavedConfigs(StoredObject, frozen=True, kw_only=True):
    """The saved configs of a topic whose partitions `unblock` repairs. See the module."""

    what = "saved configs of a topic"
    limit = 1 << 20
    hint = f"check with kafka-configs --describe whether {COPY_DISABLE} is set, then delete the object"

    cluster_id: str
    topic: str
    topic_id: str
    partitions: tuple[Count, ...]
    before: dict[str, Annotated[str, Meta(pattern="^(true|false|-?[0-9]{1,19})$")] | None]
    process: Process | None  # of the run that frees the partitions; None if no run does

    @classmethod
    def of(
        cls, cluster_id: str, topic: str, topic_id: str, partitions: tuple[int, ...], before: Mapping[str, str | None]
    ) -> SavedConfigs:
        """Return the saved configs of a topic that no run holds yet."""
        return cls(
            cluster_id=cluster_id,
            topic=topic,
            topic_id=topic_id,
            partitions=partitions,
            before=dict(before),
            process=None,
        )


class SavedConfigsStore:
    """The saved configs in one store. A write replaces only the version that this object read or wrote."""

    def __init__(self, store: ObjectStore, *, process: Process | None = None) -> None:
        self._store, self._process = store, process or this_process()
        self._etags: dict[str, str] = {}
        self._mine: dict[str, SavedConfigs] = {}
        self._noted: dict[str, SavedConfigs] = {}

    def find(self, topic_ids: Mapping[str, str], cluster_id: str) -> list[SavedConfigs]:
        """Return the saved configs of a cluster's topics. Needs one request per topic. For errors see `find_topic`.

        Args:
            topic_ids: topic ids, by topic name.
        """
        found = in_parallel(lambda topic: self.find_topic(topic, topic_ids[topic], cluster_id), sorted(topic_ids))
        return [saved for saved in found if saved is not None]

    def noted(self, topic: str, topic_id: str) -> SavedConfigs | None:
        """Return the saved configs of a topic as this object last read or wrote them. Return None after `drop`."""
        return self._noted.get(keys.unblock(topic, topic_id))

    def find_topic(self, topic: str, topic_id: str, cluster_id: str) -> SavedConfigs | None:
        """Return the saved configs of a topic; None if none are saved. Needs one request.

        Raises:
            UnblockHeldError: another run holds the topic.
            CorruptDataError: the object contains the configs of another topic or cluster, or is damaged.
        """
        key = keys.unblock(topic, topic_id)

        def decode(data: bytes, *, name: str) -> SavedConfigs:
            saved = decode_saved_configs(data, topic, topic_id, name=name)
            if saved.cluster_id != cluster_id:
                raise SavedConfigs.corrupt(
                    name,
                    f"the configs belong to cluster {saved.cluster_id[:80]}, but tiersnap is connected to cluster "
                    f"{cluster_id}",
                )
            return saved

        found = lock_object.read(self._store, key, SavedConfigs, decode)
        if found is None:
            return None
        saved = found.content
        if saved.process != self._process and why_over(saved.process, found.age, STALE_AFTER_MS) is None:
            raise self._held(saved, found.age)
        self._etags[key], self._noted[key] = found.etag, saved
        return saved

    def put(self, saved: SavedConfigs) -> None:
        """Hold a topic and save its configs durably. A repeated call renews the hold.

        Raises:
            UnblockHeldError: another run took the topic meanwhile.
        """
        key = keys.unblock(saved.topic, saved.topic_id)
        held = structs.replace(saved, process=self._process)
        try:
            etag = lock_object.write(self._store, key, held, self._etags.get(key))
        except ObjectChangedError as error:
            for known in (self._etags, self._mine, self._noted):
                known.pop(key, None)
            raise self._held(saved, 0) from error
        self._etags[key], self._mine[key], self._noted[key] = etag, saved, saved
        _log.info("saved the configs in %s%s before they are changed", self._store.uri, key)

    def drop(self, saved: SavedConfigs) -> None:
        """Delete the object of a topic, unless another run took the topic.

        Raises:
            TransientError: the deletion failed.
        """
        key = keys.unblock(saved.topic, saved.topic_id)
        for known in (self._mine, self._noted):
            known.pop(key, None)
        failures = lock_object.delete(self._store, key, self._etags.get(key))
        self._etags.pop(key, None)
        for failure in failures:
            raise TransientError(
                f"{self._store.uri}{key} could not be deleted: {failure.reason}",
                hint="allow s3:DeleteObject below the prefix, then run the same command again",
            )

    def release(self) -> None:
        """Release the topics that this process holds. Ignore a failure, because the hold becomes stale by itself."""
        for key, saved in self._mine.items():
            with suppress(TiersnapError):
                lock_object.write(self._store, key, saved, self._etags[key])
        self._mine.clear()

    def _held(self, saved: SavedConfigs, age: int) -> UnblockHeldError:
        key = keys.unblock(saved.topic, saved.topic_id)
        who = "another run of tiersnap"
        if saved.process:
            who = f"another run of tiersnap on {saved.process}"
        return UnblockHeldError(
            f"{self._store.uri}{key}: {who} is working on the topic {saved.topic}",
            hint="wait for that run, then run the same command again; if that run is dead, its hold on the topic "
            f"expires in {max(STALE_AFTER_MS - age, 0) // 1000} s",
        )


def after_other_run(act: Callable[[], T], talk: Callable[[str], None]) -> T:
    """Return the result of `act`. While `act` raises UnblockHeldError, repeat it for at most three minutes."""
    deadline, told = time.monotonic() + _OTHERS_SECONDS, False
    while True:
        try:
            return act()
        except UnblockHeldError as held:
            if time.monotonic() > deadline:
                raise
            if not told:
                _log.debug("waiting up to %.0f s for another run", _OTHERS_SECONDS)
                talk(f"{held.message}: waiting for that run")
            told = True
            time.sleep(_POLL_SECONDS)


def decode_saved_configs(data: bytes, topic: str, topic_id: str, *, name: str) -> SavedConfigs:
    """Return the saved configs of a topic. Raises like `StoredObject.decode`, or CorruptDataError for another topic."""
    found = SavedConfigs.decode(data, name=name)
    if (found.topic, found.topic_id) != (topic, topic_id):
        raise SavedConfigs.corrupt(name, f"the configs belong to the topic {found.topic[:80]}")
    others = sorted(found.before.keys() - OVERRIDES.keys())
    if others:
        raise SavedConfigs.corrupt(name, f"{others[0][:80]} is not a config that tiersnap changes")
    return found
