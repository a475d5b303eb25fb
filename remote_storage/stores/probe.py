"""The probes of a store. Whatever they write lies below `claims/probe-` and is deleted again."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator

from tiersnap.remote_storage.errors import ConditionsIgnoredError
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer, ProbeVerdict
from tiersnap.remote_storage.stores.probe_conditions import PROBES, check_conditions
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.units import human_duration

_log = logging.getLogger(__name__)

_SMALL_MS = 5_000
_LARGE_MS = 900_000  # S3 refuses requests that were signed so long ago
_DATA = b"tiersnap asks for checksums"


def probe_store(store: ObjectStore) -> Iterator[ProbeAnswer]:
    """Ask a store for what tiersnap relies on: at most twenty requests.

    Raises:
        TransientError, RemoteStorageError: the store does not answer, or refuses to be read or written.
    """
    store.now()  # connects, which takes a while and would pass for a difference of clocks
    yield clock(time.time_ns() // 1_000_000, store.now())
    yield _conditions(store)
    yield _checksums(store)
    if store.uri.startswith("s3://"):
        from tiersnap.remote_storage.stores.probe_s3 import probe_bucket

        yield from probe_bucket(store)


def exit_code_of(answers: Iterable[ProbeAnswer]) -> ExitCode:
    """USAGE where the store is not to be trusted as it is set up."""
    return ExitCode.USAGE if any(each.verdict is ProbeVerdict.FAIL for each in answers) else ExitCode.OK


def clock(here: int, there: int) -> ProbeAnswer:
    """Compare this host's clock (ms) with the store's (ms; 0 if it tells none)."""
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
    """Return whether the store has the content's CRC-32C, and refuses content with a wrong checksum."""
    key = f"{PROBES}{uuid.uuid4().hex}"
    try:
        crc32c = store.put_if_absent(key, _DATA).crc32c
        found = store.head(key)
        is_told = found is not None and found.crc32c == crc32c
        refuses = True
        if store.uri.startswith("s3://"):
            from tiersnap.remote_storage.stores.probe_s3 import refuses_damage

            refuses = refuses_damage(store, key)
    finally:
        store.delete([key])
        _log.debug("probed %s%s, which is deleted again", store.uri, key)
    if is_told and refuses:
        return ProbeAnswer("checksums", ProbeVerdict.OK, "damaged content is refused, and CRC-32C is kept with objects")
    if refuses:
        said = "damaged content is refused; no CRC-32C is kept, so what was written is proved by size alone"
        return ProbeAnswer("checksums", ProbeVerdict.WARN, said, "leave out --checksums compat if the server allows")
    said = "content was taken that is not what its checksum says"
    return ProbeAnswer("checksums", ProbeVerdict.WARN, said, "use TLS (https://), or a newer version of this server")
