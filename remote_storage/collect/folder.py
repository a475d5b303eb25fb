"""A collected folder in a store. Readers always see a complete listing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Generic, TypeVar

from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.collected.listing import Listing
from tiersnap.snapshot.collected.marker import LISTING, MARKER, Marker, is_part
from tiersnap.snapshot.errors import ObjectExistsError, UsageError

_log = logging.getLogger(__name__)

_LARGEST = 1 << 30


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Read(Generic[_T]):
    """The content of an object, and the `etag` for its conditional replacement.

    If the object does not exist, `value` is None and `etag` is "".
    """

    value: _T | None = None
    etag: str = ""


@dataclass(frozen=True, slots=True)
class CollectedFolder:
    """The collected objects of one log directory. The package `snapshot.collected` defines their formats."""

    store: ObjectStore

    def marker(self) -> Read[Marker]:
        """Return `collected.json`. Raises CorruptDataError and UsageError like `Marker.decode`."""
        try:
            found = self.store.read(MARKER, limit=_LARGEST)
        except ObjectNotFoundError:
            return Read()
        return Read(Marker.decode(found.data, name=f"{self.store.uri}{MARKER}"), found.info.etag)

    def marker_of(self, mine: Marker) -> Read[Marker]:
        """Return `collected.json`. `mine` identifies the log directory to collect.

        Raises:
            UsageError: another log directory was collected to this folder.
        """
        found = self.marker()
        if found.value is not None and not found.value.is_same_disk(mine):
            raise UsageError(
                f"{self.store.uri} already has the collected files of {found.value.place}, but this command "
                f"collects {mine.place}",
                hint="give each log directory a --to of its own",
            )
        return found

    def put_marker(self, marker: Marker, before: Read[Marker]) -> Read[Marker]:
        """Replace `collected.json` if it is unchanged since it was read.

        Raises:
            ObjectChangedError: another collection changed it first.
        """
        return Read(marker, self._put(MARKER, marker.encode(), before.etag))

    def listing(self, partition: str) -> Read[Listing]:
        """Return the listing of a partition folder. Raises CorruptDataError and UsageError like `Listing.decode`."""
        key = f"{partition}/{LISTING}"
        try:
            found = self.store.read(key, limit=_LARGEST)
        except ObjectNotFoundError:
            return Read()
        return Read(Listing.decode(found.data, name=f"{self.store.uri}{key}"), found.info.etag)

    def put_listing(self, partition: str, listing: Listing, before: Read[Listing]) -> Read[Listing]:
        """Replace the listing of a partition folder if it is unchanged since it was read. Raises like `put_marker`."""
        return Read(listing, self._put(f"{partition}/{LISTING}", listing.encode(), before.etag))

    def put_part(self, partition: str, name: str, data: bytes) -> None:
        """Write one object. `name` must be unique."""
        self.store.put_if_absent(f"{partition}/{name}", data)
        _log.debug("shipped %s%s/%s", self.store.uri, partition, name)

    def parts(self, partition: str) -> set[str]:
        """Return the names of a partition's objects, including those of killed collections."""
        names = (info.key.rpartition("/")[2] for info in self.store.list(f"{partition}/"))
        return {name for name in names if is_part(name)}

    def delete_parts(self, partition: str, names: set[str]) -> None:
        """Delete objects. If a deletion fails, a later collection tries again."""
        if names:
            _log.debug("deleting %d parts that are not in the list of %s%s", len(names), self.store.uri, partition)
            self.store.delete([f"{partition}/{name}" for name in sorted(names)])

    def delete_partition(self, partition: str) -> bool:
        """Delete a partition's listing and then its objects. Return whether all of these were deleted.

        Objects with other names than `collect` uses are kept.
        """
        keys = [f"{partition}/{name}" for name in (LISTING, *sorted(self.parts(partition)))]
        _log.info("deleting %d objects of %s%s, which is gone from the disk", len(keys), self.store.uri, partition)
        return not self.store.delete(keys)

    def _put(self, key: str, data: bytes, etag: str) -> str:
        try:
            put = self.store.replace_if(key, data, etag) if etag else self.store.put_if_absent(key, data)
        except ObjectExistsError as error:
            raise ObjectChangedError(
                f"{self.store.uri}{key}: another run of tiersnap collect has just written this object",
                hint="run the same command again",
            ) from error
        _log.debug("wrote %s%s", self.store.uri, key)
        return put.etag
