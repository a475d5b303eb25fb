"""Collect the log directories of one broker, each to its own folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.collect.collect import Collected, Collection
from tiersnap.remote_storage.collect.folder import CollectedFolder
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.log_dir import read_properties
from tiersnap.snapshot.log.places import place_of
from tiersnap.snapshot.log.selection import NamedLogDir

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._]+")


def folders_below(to: str, log_dirs: Sequence[NamedLogDir]) -> tuple[str, ...]:
    """Return the folder for each log directory.

    A single log directory is collected to `to`. If there are several, each has a folder below `to`. The name
    of the folder is the path of the log directory. A hyphen replaces characters that are not letters, digits, . or _.

    Raises:
        UsageError: two log directories would have the same folder.
    """
    if len(log_dirs) == 1:
        return (to,)
    found: dict[str, NamedLogDir] = {}
    for each in log_dirs:
        place = f"{to.rstrip('/')}/{_NOT_IN_A_NAME.sub('-', place_of(each.uri)).strip('-')}"
        other = found.setdefault(place, each)
        if other is not each:
            raise UsageError(
                f"{other.uri} and {each.uri} would both be collected into the folder {place}",
                hint="collect each log directory with a --to of its own",
            )
    return tuple(found)


def refuse_folder_of_one(store: ObjectStore) -> None:
    """Refuse a folder into which a single log directory was collected.

    Several log directories are collected into subfolders. Their objects would mix with the objects of the single one.

    Raises:
        UsageError: a log directory was collected to this folder.
    """
    found = CollectedFolder(store).marker().value
    if found is not None:
        raise UsageError(
            f"{store.uri} already has the collected files of {found.place}",
            hint="give another --to, in which collect makes a folder for each log directory",
        )


@dataclass(frozen=True, slots=True)
class DiskCollection:
    """The collection of one log directory. `folders` are the folders of the selected partitions."""

    log_dir: NamedLogDir
    store: ObjectStore
    folders: list[str]

    @property
    def is_new(self) -> bool:
        """Return whether no collection exists yet, or a collected partition has left the log directory."""
        marker = CollectedFolder(self.store).marker().value
        return marker is None or not set(marker.partitions) <= set(self.log_dir.log_dir.folders)

    def run(self, *, with_batches: bool, now: int, apply: bool) -> Iterator[tuple[NamedLogDir, Collected]]:
        """Collect the log directory. See `Collection` for the arguments, and `Collection.partitions` for the errors."""
        opened = self.log_dir.log_dir
        properties = read_properties(opened.filesystem, opened.path)
        place = place_of(self.log_dir.uri)
        collection = Collection(CollectedFolder(self.store), place, opened, properties, with_batches, now, apply)
        for done in collection.partitions(self.folders):
            yield self.log_dir, done
