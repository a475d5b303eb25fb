"""Write the snapshots and small files of `repair` into a partition's folder, or into another folder."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tiersnap.snapshot.atomic_file import SUFFIX, Staging, cannot_write, sync_directory, write_atomically
from tiersnap.snapshot.errors import ObjectExistsError, TiersnapError, UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.repair.repair_action import PlannedSnapshot, RepairAction
from tiersnap.snapshot.repair.repair_plan import Write

_log = logging.getLogger(__name__)


@contextmanager
def in_place(partition: Partition) -> Iterator[Write]:
    """Write snapshots into the partition's folder when the context ends, the highest first. The caller must hold .lock.

    No run writes a new snapshot above the highest existing one (see repair_plan). Because the highest new one is
    written first, a run after a kill may still write all others.

    Raises:
        UsageError: this user may not write to the folder; or this user is root, and the folder is a link that another
            user may have made.
        NoSpaceError: the disk is full.
    """
    with _pinned(Path(partition.path)) as folder:
        if isinstance(folder, PermissionError):
            yield partial(_refuse, Path(partition.path), folder)
        else:
            yield from _in_place(folder, partition)


def _refuse(folder: Path, error: PermissionError, *_: object) -> None:
    """Raise the error of a write into a folder that this user may not open."""
    raise cannot_write(folder, error) from error


def _in_place(folder: Path, partition: Partition) -> Iterator[Write]:
    with _Snapshots(folder, partition.path, _first_log(folder, partition)) as snapshots:
        yield snapshots.add
        existing = snapshots.publish(lambda planned: planned.action is RepairAction.REPLACE)
        if existing is not None:
            raise ObjectExistsError(f"{existing}: exists, but is not a file", hint="move it away, then run again")


def _first_log(folder: Path, partition: Partition) -> Path | None:
    """Return the first `.log` file; None without segments. New files get the same owner and mode as this file."""
    if not partition.segments:
        return None
    return folder / Path(partition.segments[0].log.path).name


class _Snapshots:
    """The new snapshots of one folder. All are made durable first, and then renamed together.

    The highest is renamed first, because the next run writes no new snapshot above the highest existing one. The folder
    is synced after this rename, and again at the end. After a crash in between, some snapshots may be missing, but each
    existing one is complete, and the next run writes the others.
    """

    def __init__(self, folder: Path, name: str, like: Path | None = None) -> None:
        self._folder, self._name, self._like = folder, name, like
        self._staging = Staging()
        self._planned: dict[Path, PlannedSnapshot] = {}

    def __enter__(self) -> _Snapshots:
        try:
            for left in self._folder.glob(f"*.snapshot{SUFFIX}"):  # leftovers of a killed run
                left.unlink()
        except OSError as error:
            raise cannot_write(self._folder, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._staging.__exit__()

    @property
    def is_empty(self) -> bool:
        return not self._planned

    def path_of(self, planned: PlannedSnapshot) -> Path:
        return self._folder / snapshot_file.file_name(planned.offset)

    def add(self, planned: PlannedSnapshot, data: bytes) -> None:
        path = self.path_of(planned)
        self._staging.add(path, data, like=self._like)
        self._planned[path] = planned

    def publish(self, replaces: Callable[[PlannedSnapshot], bool]) -> Path | None:
        """Rename the files to their final names.

        If a file exists that must not be replaced, return its path, else None.
        """
        self._staging.settle()
        ordered = sorted(self._planned.items(), key=lambda each: -each[1].offset)
        try:
            for number, (path, planned) in enumerate(ordered):
                if not self._staging.publish(path, replace=replaces(planned)):
                    return path
                _log.info("put %s/%s in place: %s", self._name, path.name, planned.action)
                if number in {0, len(ordered) - 1}:
                    sync_directory(self._folder)
        except OSError as error:
            raise cannot_write(self._folder, error) from error
        return None


@contextmanager
def _pinned(folder: Path) -> Iterator[Path | PermissionError]:
    """Yield the folder, or the PermissionError of opening it.

    For root, the yielded path refers to the open folder, so that a rename cannot redirect the writes.

    Raises:
        UsageError: this user is root, and the folder is a link that another user may have made.
    """
    if os.geteuid() != 0:
        yield folder
        return
    flags = os.O_RDONLY | os.O_DIRECTORY
    is_of_root = folder.parent.stat().st_uid == 0
    if not is_of_root:
        flags |= os.O_NOFOLLOW
    if folder.is_symlink() and not is_of_root:
        user = f"sudo -u '#{folder.stat().st_uid}'"
        raise UsageError(
            f"{folder}: a symbolic link that another user may have made, which tiersnap does not follow as root",
            hint=f"{user} tiersnap repair {shlex.quote(str(folder.parent))} --apply",
        )
    try:
        descriptor = os.open(folder, flags)
    except PermissionError as error:
        yield error
        return
    except OSError as error:
        raise cannot_write(folder, error) from error
    place = Path(f"/proc/self/fd/{descriptor}")
    try:
        yield place if place.exists() else folder
    except TiersnapError as error:
        error.message = error.message.replace(str(place), str(folder))
        raise
    finally:
        os.close(descriptor)


WriteFile = Callable[[str, bytes, bool], None]
"""Called with the name of a file, its bytes, and whether to replace an existing file."""


@contextmanager
def beside_log(partition: Partition) -> Iterator[WriteFile]:
    """Write small files into the partition's folder, each immediately. The caller must hold .lock.

    Raises:
        UsageError: see `in_place`.
        NoSpaceError: the disk is full.
    """
    with _pinned(Path(partition.path)) as folder:
        if isinstance(folder, PermissionError):
            yield partial(_refuse, Path(partition.path), folder)
            return
        like = _first_log(folder, partition)

        def write(name: str, data: bytes, replaces: bool) -> None:
            if not write_atomically(folder / name, data, replace=replaces, like=like):
                message = f"{partition.path}/{name}: another process has just written this file"
                raise ObjectExistsError(
                    message, hint="check whether a broker is starting, then run the same command again"
                )
            _log.info("put %s/%s in place", partition.path, name)

        yield write


@contextmanager
def elsewhere(out: Path, replace: bool, partition: Partition) -> Iterator[Write]:
    """Write snapshots into `out`/<topic>-<partition>/ when the context ends."""
    folder = out / partition.name
    with _Snapshots(folder, str(folder)) as snapshots:

        def write(planned: PlannedSnapshot, data: bytes) -> None:
            path = snapshots.path_of(planned)
            try:
                if os.path.lexists(path):
                    if read_regular(path) == data:
                        return
                    if not replace:
                        raise _other_content(path)
                if snapshots.is_empty:
                    folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(path, error) from error
            snapshots.add(planned, data)

        yield write
        existing = snapshots.publish(lambda _: replace)
        if existing is not None:
            raise _other_content(existing)


def _other_content(path: Path) -> ObjectExistsError:
    return ObjectExistsError(
        f"{path}: the file exists with other content",
        hint="add --replace, or give another --out directory; --as-of and --expiration change the content of the files",
    )


@contextmanager
def nowhere(partition: Partition) -> Iterator[None]:
    """Write no file. This is used for a plan."""
    yield None
