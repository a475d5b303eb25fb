"""What `unblock` has begun and must put back: one object a topic, beside the claims in remote storage.

    <prefix>claims/<topic>-<topic id>/unblock.json
    {"cluster_id": …, "topic": …, "topic_id": …, "partitions": [0, …], "before": {"remote.log.copy.disable": null, …},
     "host": …, "pid": …, "process_start": …}

null is a setting that the topic itself did not have; only what `unblock` ever puts aside is taken for such a record
(put_aside), as whoever writes to the bucket may write one. The process is who is at it: two runs that switched one
topic on and off would each publish while the other has switched copying on. A record belongs to nobody once its process
is certainly gone, or after STALE_AFTER_MS. Of a topic that was deleted nothing is to be put back any more: `tiersnap
maintain remove-orphans` then removes the object.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError, UnblockHeldError
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE, OVERRIDES
from tiersnap.remote_storage.stored.process import Process, is_gone, this_process
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.strict_json import (
    below,
    integer,
    parse_object,
    text,
)
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, TransientError

_log = logging.getLogger(__name__)

_LARGEST_RECORD = 1 << 20  # bytes
_REQUESTS_AT_ONCE = 8
_OTHERS_SECONDS = 180.0  # a run is at a topic for a minute or two
_POLL_SECONDS = 2.0
_VALUE = re.compile(r"true|false|-?[0-9]{1,19}")
T = TypeVar("T")
STALE_AFTER_MS = 600_000
"""Longer than any topic is switched off, and than any round of switching and watching."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is recorded of a topic whose partitions are being freed; see the module.

    Attributes:
        process: who is at it; None where an earlier version did not say.
    """

    cluster_id: str
    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    before: Mapping[str, str | None]
    process: Process | None = None

    def encode(self) -> bytes:
        """The JSON."""
        content: dict[str, object] = {
            "cluster_id": self.cluster_id,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "before": dict(self.before),
        }
        if self.process is not None:
            content |= {"host": self.process.host, "pid": self.process.pid, "process_start": self.process.start}
        return json.dumps(content, indent=2).encode()


class Records:
    """The records in one place of remote storage; what is written replaces what this object has found, and no other."""

    def __init__(self, store: ObjectStore, keys: ObjectKeys | None = None, *, process: Process | None = None) -> None:
        self._store, self._keys = store, keys or ObjectKeys()
        self._process = process or this_process()
        self._etags: dict[str, str] = {}
        self._mine: dict[str, Begun] = {}
        self._noted: dict[str, Begun] = {}

    def find(self, topic_ids: Mapping[str, str], cluster_id: str) -> list[Begun]:
        """What was begun and not finished of a cluster's topics, given with their ids; a request each.

        Raises:
            UnblockHeldError: another run is at one of them.
            CorruptDataError: what is there is no record of that topic, or of another cluster.
        """
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            found = pool.map(lambda topic: self._find(topic, topic_ids[topic], cluster_id), sorted(topic_ids))
            return [begun for begun in found if begun is not None]

    def noted(self, topic: str, topic_id: str) -> Begun | None:
        """What this object has found or put last of a topic, and not dropped."""
        return self._noted.get(self._keys.unblock(topic, topic_id))

    def is_begun(self, topic: str, topic_id: str) -> bool:
        """Whether somebody is at a topic, or was and has not ended."""
        return self._store.head(self._keys.unblock(topic, topic_id)) is not None

    def _find(self, topic: str, topic_id: str, cluster_id: str) -> Begun | None:
        key = self._keys.unblock(topic, topic_id)
        try:
            found = self._store.read(key, limit=_LARGEST_RECORD)
        except ObjectNotFoundError:
            return None
        begun = decode_begun(found.data, topic, topic_id, name=self._store.uri + key)
        if begun.cluster_id not in {"", cluster_id}:  # an earlier version did not note it
            raise _no_record(self._store.uri + key, f"tells of cluster {begun.cluster_id[:80]}, this is {cluster_id}")
        holder = begun.process
        is_another = holder is not None and holder != self._process and not is_gone(holder)
        if is_another and found.age <= STALE_AFTER_MS:
            raise self._held(begun, found.age)
        self._etags[key], self._noted[key] = found.info.etag, begun
        return begun

    def put(self, begun: Begun) -> None:
        """Record a topic as this process's, durably; again says that it is still at it.

        Raises:
            UnblockHeldError: another run has recorded it since.
        """
        key = self._keys.unblock(begun.topic, begun.topic_id)
        data = replace(begun, process=self._process).encode()
        try:
            if key in self._etags:
                written = self._store.replace_if(key, data, self._etags[key])
            else:
                written = self._store.put_if_absent(key, data)
        except (ObjectExistsError, ObjectChangedError) as error:
            for known in (self._etags, self._mine, self._noted):
                known.pop(key, None)
            raise self._held(begun, 0) from error
        self._etags[key], self._mine[key], self._noted[key] = written.etag, begun, begun
        _log.info("recorded %s%s before its settings are changed", self._store.uri, key)

    def drop(self, begun: Begun) -> None:
        """Forget a topic, unless another run has recorded it by now.

        Raises:
            TransientError: it could not be deleted.
        """
        key = self._keys.unblock(begun.topic, begun.topic_id)
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

    def leave(self) -> None:
        """Say of what was put and not dropped that nobody is at it any more; where that fails its age says it."""
        for key, begun in self._mine.items():
            with suppress(TransientError):
                self._store.replace_if(key, begun.encode(), self._etags[key])
        self._mine.clear()

    def _held(self, begun: Begun, age: int) -> UnblockHeldError:
        key, process = self._keys.unblock(begun.topic, begun.topic_id), begun.process
        who = f"another run of tiersnap unblock{f' on {process.host} (pid {process.pid})' if process else ''}"
        return UnblockHeldError(
            f"{self._store.uri}{key}: {who} is at {begun.topic}",
            hint="wait for it, then run the same command again; if it is dead, its record counts for "
            f"{max(STALE_AFTER_MS - age, 0) // 1000} s more",
        )


def when_nobody_is_at_it(act: Callable[[], T], talk: Callable[[str], None]) -> T:
    """What `act` gives, as soon as it does not raise UnblockHeldError; raised after three minutes."""
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


def decode_begun(data: bytes, topic: str, topic_id: str, *, name: str) -> Begun:
    """The record of a topic; `name` stands in messages.

    Raises:
        CorruptDataError: it is none, or one of another topic.
    """
    begun = _decode(data, name=name)
    if (begun.topic, begun.topic_id) != (topic, topic_id):
        raise _no_record(name, f"tells of {begun.topic[:80]}")
    return begun


def _decode(data: bytes, *, name: str) -> Begun:
    try:
        record = parse_object(data, name=name, limit=_LARGEST_RECORD)
        partitions, before = below(record, "partitions"), below(record, "before")
        if not isinstance(partitions, list) or not isinstance(before, dict):
            raise ValueError("no partitions, or no settings")  # noqa: TRY301, TRY004 - of the data
        return Begun(
            text(record.get("cluster_id", "")),  # an earlier version did not note it
            text(below(record, "topic")),
            text(below(record, "topic_id")),
            tuple(integer(each, bits=32, least=0) for each in partitions),
            {_setting(name): None if value is None else _value(value) for name, value in before.items()},
            _process(record),
        )
    except (ValueError, CorruptDataError) as error:
        raise _no_record(name, str(error)) from error


def _setting(name: str) -> str:
    if name not in OVERRIDES:
        raise ValueError(f"{name[:80]} is no setting that it puts aside")
    return name


def _value(value: object) -> str:
    if _VALUE.fullmatch(text(value)) is None:
        raise ValueError(f"{text(value)[:80]} is no value of a setting that it puts aside")
    return text(value)


def _process(record: Mapping[str, object]) -> Process | None:
    if "host" not in record:
        return None
    host, pid, start = (below(record, name) for name in ("host", "pid", "process_start"))
    return Process(text(host), integer(pid, bits=32, least=0), text(start))


def _no_record(name: str, why: str) -> CorruptDataError:
    return CorruptDataError(
        f"{name}: not a record of tiersnap unblock: {why}",
        hint=f"see with kafka-configs --describe whether {COPY_DISABLE} is set, then delete the object",
    )
