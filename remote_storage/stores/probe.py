"""Probe the features of a store. Each probe is an object below `claims/probe-`, which is deleted afterwards.

A server that ignores If-None-Match and If-Match overwrites silently, and two writers never notice each other. So a run
probes If-None-Match and If-Match with a new object before its first claim. CompleteMultipartUpload is not probed,
because a key of a multipart upload contains the id of one copy attempt and so has only one writer.
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
"""Prefix of the keys of all probes. The function that creates a probe object also deletes it."""

_WRONG_ETAG = '"00000000000000000000000000000000"'
# Status and codes of servers that do not support a header. A status 400 without such a code has many causes.
_UNKNOWN = (405, 501)
_UNKNOWN_CODES = frozenset(
    {"InvalidArgument", "InvalidRequest", "NotImplemented", "XNotImplemented", "BadRequest", "400"}
)


def check_conditions(store: ObjectStore) -> None:
    """Check that a store obeys If-None-Match and If-Match. S3 needs seven requests.

    Raises:
        ConditionsIgnoredError: the store writes although a condition is false, or refuses although the condition is
            true.
    """
    key = f"{PROBES}{uuid.uuid4().hex}"
    third = b"tiersnap asks for If-Match"
    try:
        try:
            etag = store.put_if_absent(key, b"tiersnap asks for a probe").etag
            if not _refuses_to_create(store, key, b"tiersnap asks for If-None-Match"):
                raise _ignores(store, "If-None-Match", "the server overwrote an existing object")
            if not _refuses_to_replace(store, key, third):
                raise _ignores(store, "If-Match", "the server replaced an object although the ETag differs")
            store.replace_if(key, third, etag)
        except ObjectChangedError as error:
            raise _ignores(store, "If-Match", "the server does not accept the ETag that it returned") from error
        except RemoteStorageError as error:
            if error.attrs.get("status") in _UNKNOWN or error.attrs.get("code") in _UNKNOWN_CODES:
                raise _ignores(store, "If-None-Match and If-Match", error.message) from error
            raise
    finally:
        store.delete([key])
        _log.debug("probed and deleted %s%s", store.uri, key)


def check_lists(store: ObjectStore) -> None:
    """Check that a store can be listed. S3 needs one request, and nothing is written.

    Raises:
        TransientError: the store does not answer.
        RemoteStorageError: the store refuses the credentials, or the bucket does not exist.
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
        f"{store.uri}: the server does not obey the condition {condition}: {how}",
        hint="use a server with conditional writes, or a newer version of this server. Without conditional writes, two "
        "runs may overwrite each other's objects",
        store=store.uri,
    )


_log = logging.getLogger(__name__)

_SMALL_MS = 5_000
_LARGE_MS = 900_000  # S3 refuses requests that were signed so long ago
_DATA = b"tiersnap asks for checksums"


def probe_store(store: ObjectStore) -> Iterator[ProbeAnswer]:
    """Yield answers about the store properties that tiersnap needs. The probes send at most twenty requests.

    Raises:
        TransientError: the store does not answer.
        RemoteStorageError: the store refuses a read or a write.
    """
    store.now()  # connect first: the time to connect would look like a clock difference
    yield clock(time.time_ns() // 1_000_000, store.now())
    yield _conditions(store)
    yield _checksums(store)
    yield from store.probes()


def problems_of(answers: Iterable[ProbeAnswer]) -> Iterator[OtherProblem]:
    """Yield UNSAFE_STORE if a probe failed."""
    if any(each.verdict is ProbeVerdict.FAIL for each in answers):
        yield OtherProblem.UNSAFE_STORE


def clock(here: int, there: int) -> ProbeAnswer:
    """Compare the time of this host (`here`) with the time of the store (`there`), in ms.

    `there` is 0 if the store has no clock.
    """
    difference = abs(here - there)
    if there == 0:
        return ProbeAnswer(
            "clock", ProbeVerdict.UNKNOWN, "the store returns no time, so tiersnap treats no object as old"
        )
    direction = "behind"
    if here > there:
        direction = "ahead of"
    said = f"the clock of this host is {human_duration(difference)} {direction} the clock of the store"
    if difference >= _LARGE_MS:
        return ProbeAnswer(
            "clock", ProbeVerdict.FAIL, said, "set the clock of this host: S3 refuses requests with a wrong time"
        )
    if difference >= _SMALL_MS:
        return ProbeAnswer(
            "clock",
            ProbeVerdict.WARN,
            said,
            "set the clock of this host; tiersnap computes ages with the clock of the store",
        )
    return ProbeAnswer("clock", ProbeVerdict.OK, said)


def _conditions(store: ObjectStore) -> ProbeAnswer:
    try:
        check_conditions(store)
    except ConditionsIgnoredError as error:
        return ProbeAnswer("conditional writes", ProbeVerdict.FAIL, error.message, error.hint)
    return ProbeAnswer("conditional writes", ProbeVerdict.OK, "the store obeys If-None-Match and If-Match")


def _checksums(store: ObjectStore) -> ProbeAnswer:
    key = f"{PROBES}{uuid.uuid4().hex}"
    try:
        crc32c = store.put_if_absent(key, _DATA).crc32c
        found = store.head(key)
        has_checksum = found is not None and found.crc32c == crc32c
        refuses = store.refuses_damage(key)
    finally:
        store.delete([key])
        _log.debug("probed and deleted %s%s", store.uri, key)
    if has_checksum and refuses:
        return ProbeAnswer(
            "checksums", ProbeVerdict.OK, "the store refuses damaged content, and stores CRC-32C with objects"
        )
    if refuses:
        said = (
            "the store refuses damaged content, but stores no CRC-32C, so tiersnap can check only the sizes of objects"
        )
        return ProbeAnswer(
            "checksums", ProbeVerdict.WARN, said, "remove --checksums compat if the server accepts requests without it"
        )
    said = "the store accepted content that does not match its checksum"
    return ProbeAnswer("checksums", ProbeVerdict.WARN, said, "use TLS (https://), or a newer version of this server")
