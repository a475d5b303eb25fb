"""Probe the features of a store with objects below `claims/probe-`, which are deleted afterwards.

A server without If-None-Match and If-Match overwrites silently, and two writers then never notice each other. So a run
probes both with a new object before its first claim. It does not probe CompleteMultipartUpload: the keys of multipart
uploads contain the id of one attempt, so they have one writer.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator

from tiersnap.remote_storage.errors import ConditionsIgnoredError, ObjectChangedError
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer, ProbeVerdict
from tiersnap.snapshot.errors import ObjectExistsError, RemoteStorageError
from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.units import human_duration

PROBES = "claims/probe-"
"""Prefix of the keys of all probes. A probe exists during one question to the store."""

_WRONG_ETAG = '"00000000000000000000000000000000"'
# Answers of servers that do not know a header, by status and code; 400 alone is many other things.
_UNKNOWN = (405, 501)
_UNKNOWN_CODES = frozenset(
    {"InvalidArgument", "InvalidRequest", "NotImplemented", "XNotImplemented", "BadRequest", "400"}
)


def check_conditions(store: ObjectStore) -> None:
    """Put a probe, try to overwrite it in both ways, and delete it: seven requests in S3.

    Raises:
        ConditionsIgnoredError: the store overwrites against a condition, or refuses a right one.
    """
    key = f"{PROBES}{uuid.uuid4().hex}"
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
            if error.attrs.get("status") in _UNKNOWN or error.attrs.get("code") in _UNKNOWN_CODES:
                raise _ignores(store, "If-None-Match and If-Match", error.message) from error
            raise
    finally:
        store.delete([key])
        _log.debug("probed and deleted %s%s", store.uri, key)


def check_lists(store: ObjectStore) -> None:
    """List a store, to see that it answers: one request in S3, which writes nothing.

    Raises:
        TransientError: it does not answer.
        RemoteStorageError: it refuses the credentials, or the bucket does not exist.
    """
    next(iter(store.list(PROBES)), None)


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


_log = logging.getLogger(__name__)

_SMALL_MS = 5_000
_LARGE_MS = 900_000  # S3 refuses requests that were signed so long ago
_DATA = b"tiersnap asks for checksums"


def probe_store(store: ObjectStore) -> Iterator[ProbeAnswer]:
    """Probe the properties of a store that tiersnap relies on: at most twenty requests.

    Raises:
        TransientError, RemoteStorageError: the store does not answer, or refuses to be read or written.
    """
    store.now()  # connects, which takes a while and would look like a difference of clocks
    yield clock(time.time_ns() // 1_000_000, store.now())
    yield _conditions(store)
    yield _checksums(store)
    yield from store.probes()


def problems_of(answers: Iterable[ProbeAnswer]) -> Iterator[OtherProblem]:
    """Yield a problem if tiersnap cannot rely on the store."""
    if any(each.verdict is ProbeVerdict.FAIL for each in answers):
        yield OtherProblem.UNSAFE_STORE


def clock(here: int, there: int) -> ProbeAnswer:
    """Compare the clocks of this host and of the store, in ms; the store's is 0 if it has none."""
    difference = abs(here - there)
    if there == 0:
        return ProbeAnswer("clock", ProbeVerdict.UNKNOWN, "the store tells no time, so nothing in it ever looks old")
    said = f"this host is {human_duration(difference)} {'ahead of' if here > there else 'behind'} the store"
    if difference >= _LARGE_MS:
        return ProbeAnswer("clock", ProbeVerdict.FAIL, said, "set this host's clock: S3 refuses its requests")
    if difference >= _SMALL_MS:
        return ProbeAnswer("clock", ProbeVerdict.WARN, said, "set this host's clock; ages go by that of the store")
    return ProbeAnswer("clock", ProbeVerdict.OK, said)


def _conditions(store: ObjectStore) -> ProbeAnswer:
    try:
        check_conditions(store)
    except ConditionsIgnoredError as error:
        return ProbeAnswer("conditional writes", ProbeVerdict.FAIL, error.message, error.hint)
    return ProbeAnswer("conditional writes", ProbeVerdict.OK, "If-None-Match and If-Match are kept")


def _checksums(store: ObjectStore) -> ProbeAnswer:
    key = f"{PROBES}{uuid.uuid4().hex}"
    try:
        crc32c = store.put_if_absent(key, _DATA).crc32c
        found = store.head(key)
        is_told = found is not None and found.crc32c == crc32c
        refuses = store.refuses_damage(key)
    finally:
        store.delete([key])
        _log.debug("probed and deleted %s%s", store.uri, key)
    if is_told and refuses:
        return ProbeAnswer("checksums", ProbeVerdict.OK, "damaged content is refused, and CRC-32C is kept with objects")
    if refuses:
        said = "damaged content is refused; no CRC-32C is kept, so what was written is proved by size alone"
        return ProbeAnswer("checksums", ProbeVerdict.WARN, said, "leave out --checksums compat if the server allows")
    said = "content was taken that is not what its checksum says"
    return ProbeAnswer("checksums", ProbeVerdict.WARN, said, "use TLS (https://), or a newer version of this server")
