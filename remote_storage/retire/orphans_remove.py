"""Removal of orphans; killed anywhere, the same command again removes the rest."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from tiersnap.remote_storage.retire.orphans import Fate, Orphan, OrphanKind
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.snapshot.errors import TiersnapError

_log = logging.getLogger(__name__)
# What tells whose the rest is goes when the rest is gone.
_LAST = {OrphanKind.CLAIM, OrphanKind.EXPIRE, OrphanKind.CLUSTER}


def remove(store: ObjectStore, orphans: Iterable[Orphan]) -> Iterator[tuple[Orphan, tuple[DeleteFailure, ...]]]:
    """Remove those that may go, with what is still there of each.

    Of a partition of which something could not be removed the claims and `cluster.json` stay.
    """
    failed = set()
    for orphan in orphans:
        if orphan.action is not Fate.REMOVE or (orphan.kind in _LAST and orphan.partition in failed):
            continue
        failures = _remove(store, orphan)
        _log.info("removed %s %s of %s, %d failures", orphan.kind, orphan.keys[:1], orphan.partition, len(failures))
        if failures:
            failed.add(orphan.partition)
        yield orphan, failures


def _remove(store: ObjectStore, orphan: Orphan) -> tuple[DeleteFailure, ...]:
    if orphan.upload is not None:
        try:
            store.abort_upload(orphan.upload)
        except TiersnapError as error:
            return (DeleteFailure(orphan.upload.key, error.message),)
        return ()
    first, *rest = orphan.keys
    # What makes a copy visible goes before the rest of it.
    return store.delete([first]) or store.delete(rest)
