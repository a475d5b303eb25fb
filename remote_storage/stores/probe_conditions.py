"""Probe whether a store keeps conditions: create only if absent, replace only the object that was read.

Servers that do not know If-None-Match and If-Match overwrite without a word, and then two writers never notice each
other. So a run asks before its first claim, with an object of its own that it deletes again. A CompleteMultipartUpload
is not asked for: its keys bear the id of one attempt, so nobody else writes them.
"""

from __future__ import annotations

import logging
import uuid

from tiersnap.remote_storage.errors import ConditionsIgnoredError, ObjectChangedError
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import ObjectExistsError, RemoteStorageError

_log = logging.getLogger(__name__)

PROBES = "claims/probe-"
"""How the keys of all probes begin; each lives as long as one question to the store."""

_WRONG_ETAG = '"00000000000000000000000000000000"'
_UNKNOWN = (400, 405, 501)  # answers of servers that do not know a header


def check_conditions(store: ObjectStore, probes: str = PROBES) -> None:
    """Put a probe, try to overwrite it in both ways, and delete it; seven requests in S3.

    Args:
        probes: how its key begins.

    Raises:
        ConditionsIgnoredError: the store does not refuse what it must, or refuses what it must not.
    """
    key = f"{probes}{uuid.uuid4().hex}"
    first, second, third = (f"tiersnap asks for {word}".encode() for word in ("a probe", "If-None-Match", "If-Match"))
    try:
        try:
            etag = store.put_if_absent(key, first).etag
            if not _refuses_to_create(store, key, second):
                raise _ignores(store, "If-None-Match", "it overwrote an object that it was to create only if absent")
            if not _refuses_to_replace(store, key, third):
                raise _ignores(store, "If-Match", "it replaced an object that is not the one with the given ETag")
            store.replace_if(key, third, etag)
        except ObjectChangedError as error:
            raise _ignores(store, "If-Match", "it does not know the ETag again that it gave") from error
        except RemoteStorageError as error:
            if error.attrs.get("status") in _UNKNOWN:
                raise _ignores(store, "If-None-Match and If-Match", error.message) from error
            raise
    finally:
        store.delete([key])
        _log.debug("probed %s%s, which is deleted again", store.uri, key)


def check_lists(store: ObjectStore, probes: str = PROBES) -> None:
    """See that a store answers and may be listed: one request in S3, and nothing is written.

    Raises:
        TransientError: it does not answer.
        RemoteStorageError: it refuses the credentials, or there is no such bucket.
    """
    next(iter(store.list(probes)), None)


def _refuses_to_create(store: ObjectStore, key: str, data: bytes) -> bool:
    try:
        store.put_if_absent(key, data)
    except ObjectExistsError:
        return True
    return False


def _refuses_to_replace(store: ObjectStore, key: str, data: bytes) -> bool:
    try:
        store.replace_if(key, data, _WRONG_ETAG)
    except ObjectChangedError:
        return True
    return False


def _ignores(store: ObjectStore, condition: str, how: str) -> ConditionsIgnoredError:
    return ConditionsIgnoredError(
        f"{store.uri}: the server does not do what {condition} asks: {how}",
        hint="two runs would overwrite each other there: take a server that has conditional writes, as S3 itself "
        "has, or a newer version of this one",
        store=store.uri,
    )
