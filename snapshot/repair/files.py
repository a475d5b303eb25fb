"""Where `repair` puts the snapshots of a partition: into the broker's folder, or elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tiersnap.snapshot.atomic_file import (
    SUFFIX,
    cannot_write,
    publish,
    stage,
    staged,
    sync_directory,
    write_atomically,
)
from tiersnap.snapshot.errors import ObjectExistsError, TiersnapError, UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.repair.plan import PlannedSnapshot, RepairAction, Write

_log = logging.getLogger(__name__)


@contextmanager
def in_place(partition: Partition) -> Iterator[Write]:
    """Writes into the partition's folder, all files at the end and the highest first.

    The highest decides how far up the next run may write, if this one is killed before it is done: the limit of a
    partition without any snapshot is its newest segment, and the limit of one with a few is the highest of them.
    Only while .lock is held.

    Raises:
        UsageError: this user may not write there, or the folder is a link that root does not follow.
        NoSpaceError: the disk is full.
    """
    with _pinned(Path(partition.path)) as folder:
        if isinstance(folder, PermissionError):
            yield partial(_refuse, Path(partition.path), folder)
        else:
            yield from _in_place(folder, partition)


def _refuse(folder: Path, error: PermissionError, *_: object) -> None:
    """What may not be listed is a finding, and nothing is planned there; if something is, it is refused."""
    raise cannot_write(folder, error) from error


def _in_place(folder: Path, partition: Partition) -> Iterator[Write]:
    plan: list[PlannedSnapshot] = []

    def path_of(planned: PlannedSnapshot) -> Path:
        return folder / snapshot_file.file_name(planned.offset)

    def write(planned: PlannedSnapshot, data: bytes) -> None:
        stage(path_of(planned), data, like=folder / Path(partition.segments[0].log.path).name)
        plan.append(planned)

    try:
        for left in folder.glob(f"*.snapshot{SUFFIX}"):  # a run was killed
            left.unlink()
        yield write
        for planned in sorted(plan, key=lambda planned: planned.offset, reverse=True):
            path = path_of(planned)
            if not publish(path, replace=planned.action is RepairAction.REPLACE):
                message = f"{path}: there is something that is no file"
                raise ObjectExistsError(message, hint="move it away, then run again")
            sync_directory(folder)
            _log.info("put %s/%s in place: %s", partition.path, path.name, planned.action)
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        for planned in plan:
            with contextlib.suppress(OSError):
                staged(path_of(planned)).unlink(missing_ok=True)


@contextmanager
def _pinned(folder: Path) -> Iterator[Path | PermissionError]:
    """The folder, for root one that stays the same whatever takes its name; or why root may not open it.

    Raises:
        UsageError: it is a link that somebody else than root may have laid, and this user is root.
    """
    if os.geteuid() != 0:
        yield folder
        return
    is_of_root = folder.parent.stat().st_uid == 0
    if folder.is_symlink() and not is_of_root:
        user = f"sudo -u '#{folder.stat().st_uid}'"
        raise UsageError(
            f"{folder} is a symbolic link, and root writes through none that another user may have laid",
            hint=f"{user} tiersnap repair {shlex.quote(str(folder.parent))} --apply",
        )
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (0 if is_of_root else os.O_NOFOLLOW))
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


@contextmanager
def elsewhere(out: Path, replace: bool, partition: Partition) -> Iterator[Write]:
    """Writes to `out`/<topic>-<partition>/, each file as it comes."""
    folder = out / partition.name

    def write(planned: PlannedSnapshot, data: bytes) -> None:
        path = folder / snapshot_file.file_name(planned.offset)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            staged(path).unlink(missing_ok=True)
            if os.path.lexists(path) and read_regular(path) == data:
                return
        except OSError as error:
            raise cannot_write(path, error) from error
        if not write_atomically(path, data, replace=replace):
            raise ObjectExistsError(
                f"{path}: a file with other content is there",
                hint="give another --out directory, or --replace; another --as-of or --expiration gives other files",
            )

    yield write


@contextmanager
def nowhere(partition: Partition) -> Iterator[None]:
    """Writes nothing: a plan."""
    yield None
