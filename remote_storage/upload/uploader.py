"""Upload a segment to remote storage completely and checked, or leave nothing of it.

The log is sent first, then the indexes, and last the object that makes the segment visible. The log is checked while it
is sent, and wrong indexes are rebuilt from it. The last object is written only after all others were found in the store
(see checked_upload).
If a step fails, the written objects are deleted in reverse order. After a crash the segment is not visible either;
`Layout.inspect` shows the next run whether to record COPY_SEGMENT_FINISHED, or to call `delete_copy` and take a new
segment id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tiersnap.remote_storage.errors import IllegalStateTransitionError
from tiersnap.remote_storage.layouts.layout import PlannedObject
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore, PutResult
from tiersnap.remote_storage.stores.requests import DEFAULT_UPLOAD_SECONDS, Deadline
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.checked_upload import CheckedLog, check_listed, check_stored
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import IncompleteBundleError, ObjectExistsError, TiersnapError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of a copy: bytes of its objects, keys of the created ones, and why an index was rebuilt, by name."""

    bytes: int
    made: tuple[str, ...]
    rebuilt_indexes: dict[str, str]


def copy_segment(
    location: RemoteLocation,
    segment: SegmentBundle,
    metadata: RemoteLogSegmentMetadata,
    *,
    timeout: float | None = DEFAULT_UPLOAD_SECONDS,
    before_visible: Callable[[], None] = lambda: None,
) -> CopyResult:
    """Copy `segment` as `metadata`, which is `segment.metadata(…)` and recorded as COPY_SEGMENT_STARTED.

    Args:
        timeout: seconds for the whole segment, None for no limit.
        before_visible: called when all objects but the last exist in the store; an error that it raises undoes the
            copy.

    Raises:
        TiersnapError: see SegmentCopy.
    """
    copy = SegmentCopy(location, segment, metadata)
    copy.send(Deadline(timeout))
    with copy.undone_on_error():
        copy.look()
        before_visible()
    return copy.show()


@dataclass(slots=True, eq=False)
class SegmentCopy:
    """A copy under way: `send` its objects, check them with `look`, make it visible with `show`.

    A step that fails deletes the objects. `attrs["left_behind"]` of the error has the keys that could not be deleted.

    Raises:
        SegmentChangedError: the segment differs from the decoded one.
        CorruptSegmentError: a batch is damaged.
        WrongLeaderEpochsError: a batch has another leader epoch than the leader-epoch-checkpoint.
        TransientError: time ran out, or storage failed, or lost an acknowledged object.
        RemoteStorageError: storage refused, or has other bytes than were sent.
        ObjectExistsError: the segment id was used before.
    """

    location: RemoteLocation
    segment: SegmentBundle
    metadata: RemoteLogSegmentMetadata
    _sent: list[tuple[str, PutResult]] = field(default_factory=list)
    _in_doubt: list[str] = field(default_factory=list)
    _last: PlannedObject | None = None
    _rebuilt: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_described(self.segment, self.metadata)

    def send(self, deadline: Deadline) -> None:
        """Send the log and the indexes, and compare each with the stored object, before the deadline."""
        segment = self.segment
        segment.log.check_unchanged()
        with self.undone_on_error(), deadline:
            with segment.log.open() as file:
                log = CheckedLog(file, segment, segment.found_indexes())
                key, size = self.location.layout.log_key(self.metadata), segment.log.size
                put_log = partial(self.location.store.put_file_if_absent, key, log, size)
                self._put(key, partial(put_log, metadata=self._provenance, deadline=deadline))
            *others, self._last = self.location.layout.plan(segment.index_contents(log.indexes), self.metadata)
            self._rebuilt = log.indexes.rebuilt
            for planned in others:
                deadline.check(f"copy of {self.metadata.id}")
                self._put_planned(planned)
            deadline.check(f"copy of {self.metadata.id}")

    def look(self) -> None:
        """Check with one listing that all sent objects exist; if that fails, the caller undoes the copy."""
        check_listed(self.location.store, self.location.layout.stem(self.metadata), self._sent)

    def show(self) -> CopyResult:
        """Put the last object, which makes the segment visible."""
        assert self._last is not None
        with self.undone_on_error():
            self._put_planned(self._last)
        return CopyResult(sum(done.size for _, done in self._sent), tuple(self._made()), self._rebuilt)

    @property
    def shown(self) -> tuple[str, bytes]:
        """Return the ETag and the content of the last object; call it after `show`."""
        assert self._last is not None
        return self._sent[-1][1].etag, self._last.content

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Delete the sent objects if the block raises."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, ObjectExistsError):
                self._in_doubt.clear()  # another writer made the object
            failures = self.undo()
            if isinstance(error, TiersnapError):
                error.attrs["left_behind"] = [failure.key for failure in failures]
            raise

    def undo(self) -> tuple[DeleteFailure, ...]:
        """Delete the sent objects, the last first; return those that remain."""
        # Never delete another writer's object. Delete our own even if the put got no answer.
        return delete_in_reverse(self.location.store, self._made() + self._in_doubt)

    def _made(self) -> list[str]:
        return [key for key, done in self._sent if done.outcome.is_ours]

    @property
    def _provenance(self) -> dict[str, str]:
        return object_metadata(self.segment)

    def _put_planned(self, planned: PlannedObject) -> None:
        put = self.location.store.put_if_absent
        self._put(planned.key, partial(put, planned.key, planned.content, self._provenance))

    def _put(self, key: str, put: Callable[[], PutResult]) -> None:
        self._in_doubt.append(key)
        done = put()
        self._sent.append((key, done))
        self._in_doubt.clear()
        check_stored(self.location.store, key, done)


def object_metadata(segment: SegmentBundle) -> dict[str, str]:
    """Return the user metadata of a segment's objects."""
    provenance = str(segment.producer_snapshot.provenance)
    return {"version": __version__, "snapshot-provenance": provenance}


def delete_copy(location: RemoteLocation, metadata: RemoteLogSegmentMetadata) -> tuple[DeleteFailure, ...]:
    """Delete the objects of a remote segment, the one that makes it visible first; return those that remain.

    If it returns nothing, DELETE_SEGMENT_FINISHED may be recorded. A repeated call is harmless.
    """
    return delete_in_reverse(location.store, list(location.layout.object_keys(metadata)))


def _check_described(segment: SegmentBundle, metadata: RemoteLogSegmentMetadata) -> None:
    if metadata.state is not SegmentState.COPY_SEGMENT_STARTED:
        raise IllegalStateTransitionError(
            f"{metadata.id} is {metadata.state.name}: bytes are copied in COPY_SEGMENT_STARTED",
            hint="a new attempt takes a new segment id",
        )
    described = (metadata.start_offset, metadata.end_offset + 1, metadata.segment_size)
    found = (segment.base_offset, segment.next_base_offset, segment.log.size)
    if described != found:
        raise IncompleteBundleError(f"{metadata.id}: metadata says {described}, the segment is {found}")


def delete_in_reverse(store: ObjectStore, keys: Sequence[str]) -> tuple[DeleteFailure, ...]:
    """Delete written objects, the last first; log and return those that remain."""
    failures: list[DeleteFailure] = []
    for key in reversed(keys):
        try:
            failures += store.delete([key])
        except TiersnapError as error:
            failures.append(DeleteFailure(key, error.message))
    for failure in failures:
        _log.warning("could not delete store=%s key=%s reason=%s", store.uri, failure.key, failure.reason)
    return tuple(failures)
