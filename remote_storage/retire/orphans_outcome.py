"""Orphans that were found and removed, and the exit code; killed anywhere, the same command removes the rest."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.retire.orphans import Orphan
from tiersnap.remote_storage.retire.outcomes import Fate, OrphanKind
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.snapshot.errors import ExitCode, GateError, TiersnapError, failure

_log = logging.getLogger(__name__)
# What tells whose the rest is goes when the rest is gone.
_LAST = {OrphanKind.CLAIM, OrphanKind.EXPIRE, OrphanKind.KNOWN_MANIFESTS, OrphanKind.CLUSTER}


@dataclass(frozen=True, slots=True)
class OrphansOutcome:
    """All that was found, and of what was to be removed (`done`) what could not be; `done` is empty for a plan."""

    found: Sequence[Orphan]
    done: Sequence[tuple[Orphan, tuple[DeleteFailure, ...]]] = ()

    @property
    def wanted(self) -> list[Orphan]:
        """Return the orphans that may be removed."""
        return [each for each in self.found if each.action is Fate.REMOVE]

    @property
    def refused(self) -> list[Orphan]:
        """Return those that may not, for a reason that a person must clear."""
        return [each for each in self.found if each.action is Fate.REFUSE]

    @property
    def waiting(self) -> list[Orphan]:
        """Return those that are too young."""
        return [each for each in self.found if each.action is Fate.WAIT]

    @property
    def failures(self) -> list[DeleteFailure]:
        """Objects that could not be removed."""
        return [each for _, failures in self.done for each in failures]

    @property
    def left(self) -> list[Orphan]:
        """Return those that are there now, without the young ones."""
        gone = {id(orphan) for orphan, failures in self.done if not failures}
        return [each for each in self.found if id(each) not in gone and each.action is not Fate.WAIT]

    def errors(self) -> Iterator[TiersnapError]:
        """Yield refusals, and objects that could not be removed."""
        for orphan in self.refused:
            yield GateError(f"{orphan.partition}: {orphan.reason}")
        for each in self.failures:
            yield failure(f"{each.key}: {each.reason}", is_transient=False)

    @property
    def exit_code(self) -> ExitCode:
        """PARTIAL for what could not be removed or was refused beside others, GATE_REFUSED where all was refused."""
        if self.failures:
            return ExitCode.PARTIAL
        if not self.refused:
            return ExitCode.OK
        return ExitCode.PARTIAL if self.wanted else ExitCode.GATE_REFUSED


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
