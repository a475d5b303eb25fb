"""Upload a complete and checked segment to remote storage. After a failure, delete its objects.

The log is sent first, then the indexes, and last the object that makes the segment visible. tiersnap checks the log
while it sends the log, and rebuilds wrong indexes. The last object is written only after a listing shows all others
(see checked_upload.py).

If a step fails, the written objects are deleted in reverse order. After a crash, the next run calls `Layout.inspect`.
If the segment is complete, that run records COPY_SEGMENT_FINISHED. Otherwise it calls `delete_copy` and takes a new
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
    """The result of an upload: bytes of all objects, keys of new objects, and why indexes were rebuilt, by index."""

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
    """Upload a segment.

    Args:
        location: the remote location.
        segment: the segment with all its parts.
        metadata: the result of `segment.metadata(…)`, in the state COPY_SEGMENT_STARTED.
        timeout: seconds for the whole segment; None for no limit.
        before_visible: called before the last object is written. If it raises an error, the objects are deleted.

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
    """One upload: `send` writes all objects but the last, `look` checks them, `show` writes the last one.

    If a step fails, the objects are deleted. Keys that could not be deleted are in `attrs["left_behind"]` of the error.

    Raises:
        SegmentChangedError: the segment changed since tiersnap decoded it.
        CorruptSegmentError: a batch is damaged.
        WrongLeaderEpochsError: a batch has another leader epoch than the leader-epoch-checkpoint.
        TransientError: the time limit passed, or the store did not answer or lost an acknowledged object.
        RemoteStorageError: the store refused a request, or has other bytes than were sent.
        ObjectExistsError: an object with this segment id exists.
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
        """Send all objects except the last one. Check that the store has the bytes that were sent.

        Args:
            deadline: limits the whole call.
        """
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
        """Check with one listing that all sent objects exist. If this raises an error, the caller must call `undo`."""
        check_listed(self.location.store, self.location.layout.stem(self.metadata), self._sent)

    def show(self) -> CopyResult:
        """Write the last object, which makes the segment visible."""
        assert self._last is not None
        with self.undone_on_error():
            self._put_planned(self._last)
        return CopyResult(sum(done.size for _, done in self._sent), tuple(self._made()), self._rebuilt)

    @property
    def shown(self) -> tuple[str, bytes]:
        """Return the ETag and the content of the last object. Call this only after `show`."""
        assert self._last is not None
        return self._sent[-1][1].etag, self._last.content

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Delete the sent objects if the block raises an error."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, ObjectExistsError):
                self._in_doubt.clear()  # another writer created the object, so do not delete it
            failures = self.undo()
            if isinstance(error, TiersnapError):
                error.attrs["left_behind"] = [failure.key for failure in failures]
            raise

    def undo(self) -> tuple[DeleteFailure, ...]:
        """Delete the sent objects, the last first. Return the failures."""
        # An object whose put got no answer is ours, so delete it too. Objects of other writers stay.
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
    """Delete the objects of a remote segment, first the object that makes it visible. Return the failures.

    If there are no failures, the caller may record DELETE_SEGMENT_FINISHED. A second call does no harm.
    """
    return delete_in_reverse(location.store, list(location.layout.object_keys(metadata)))


def _check_described(segment: SegmentBundle, metadata: RemoteLogSegmentMetadata) -> None:
    if metadata.state is not SegmentState.COPY_SEGMENT_STARTED:
        raise IllegalStateTransitionError(
            f"{metadata.id}: the state is {metadata.state.name}, but an upload needs COPY_SEGMENT_STARTED",
            hint="start a new attempt with a new segment id",
        )
    described = (metadata.start_offset, metadata.end_offset + 1, metadata.segment_size)
    found = (segment.base_offset, segment.next_base_offset, segment.log.size)
    if described != found:
        raise IncompleteBundleError(f"{metadata.id}: the metadata says {described}, but the segment has {found}")


def delete_in_reverse(store: ObjectStore, keys: Sequence[str]) -> tuple[DeleteFailure, ...]:
    """Delete objects in the reverse order of `keys`. Log and return the failures."""
    failures: list[DeleteFailure] = []
    for key in reversed(keys):
        try:
            failures += store.delete([key])
        except TiersnapError as error:
            failures.append(DeleteFailure(key, error.message))
    for failure in failures:
        _log.warning("could not delete store=%s key=%s reason=%s", store.uri, failure.key, failure.reason)
    return tuple(failures)
