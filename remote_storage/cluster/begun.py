"""What `unblock` has begun and must put back: one object a topic, beside the claims in remote storage.

    <prefix>claims/<topic>-<topic id>/unblock.json
    {"cluster_id": …, "topic": …, "topic_id": …, "partitions": [0, …], "before": {"remote.log.copy.disable": null, …}}

null is a setting that the topic itself did not have. Of a topic that was deleted nothing is to be put back any more:
`tiersnap maintain remove-orphans` then removes the object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from tiersnap.remote_storage.cluster.topic_checks import COPY_DISABLE
from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.strict_json import below, parse_object, text, whole
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, TransientError

_LARGEST_RECORD = 1 << 20  # bytes
_REQUESTS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Begun:
    """What is recorded of a topic whose partitions are being freed; see the module."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    before: Mapping[str, str | None]


class Records:
    """The records in one place of remote storage; what is written replaces what this object has found, and no other."""

    def __init__(self, store: ObjectStore, keys: ObjectKeys | None = None) -> None:
        self._store, self._keys = store, keys or ObjectKeys()
        self._etags: dict[str, str] = {}

    def find(self, topic_ids: Mapping[str, str]) -> list[Begun]:
        """What was begun and not finished of topics, given with their ids; a request each.

        Raises:
            CorruptDataError: what is there is no record of that topic.
        """
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            found = pool.map(lambda topic: self._find(*topic), sorted(topic_ids.items()))
            return [begun for begun in found if begun is not None]

    def _find(self, topic: str, topic_id: str) -> Begun | None:
        key = self._keys.unblock(topic, topic_id)
        try:
            found = self._store.read(key, limit=_LARGEST_RECORD)
        except ObjectNotFoundError:
            return None
        begun = decode_begun(found.data, topic, topic_id, name=self._store.uri + key)
        self._etags[key] = found.info.etag
        return begun

    def put(self, begun: Begun) -> None:
        """Record a topic, durably.

        Raises:
            ObjectChangedError: another run has recorded it since.
        """
        key, data = self._keys.unblock(begun.topic, begun.topic_id), json.dumps(asdict(begun), indent=2).encode()
        try:
            if key in self._etags:
                written = self._store.replace_if(key, data, self._etags[key])
            else:
                written = self._store.put_if_absent(key, data)
        except (ObjectExistsError, ObjectChangedError) as error:
            raise ObjectChangedError(
                f"{self._store.uri}{key}: another run of tiersnap unblock is at {begun.topic}",
                hint="wait for it, then run the same command again",
            ) from error
        self._etags[key] = written.etag

    def drop(self, begun: Begun) -> None:
        """Forget a topic.

        Raises:
            TransientError: it could not be deleted.
        """
        key = self._keys.unblock(begun.topic, begun.topic_id)
        for failure in self._store.delete([key]):
            raise TransientError(
                f"{self._store.uri}{key} could not be deleted: {failure.reason}",
                hint="allow s3:DeleteObject below the prefix, then run the same command again",
            )
        self._etags.pop(key, None)


def decode_begun(data: bytes, topic: str, topic_id: str, *, name: str) -> Begun:
    """The record of a topic; `name` stands in messages.

    Raises:
        CorruptDataError: it is none, or one of another topic.
    """
    begun = _decode(data, name=name)
    if (begun.topic, begun.topic_id) != (topic, topic_id):
        raise _no_record(name, f"tells of {begun.topic}")
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
            tuple(whole(each, bits=32, least=0) for each in partitions),
            {setting: None if value is None else text(value) for setting, value in before.items()},
        )
    except (ValueError, CorruptDataError) as error:
        raise _no_record(name, str(error)) from error


def _no_record(name: str, why: str) -> CorruptDataError:
    return CorruptDataError(
        f"{name}: not a record of tiersnap unblock: {why}",
        hint=f"see with kafka-configs --describe whether {COPY_DISABLE} is set, then delete the object",
    )
