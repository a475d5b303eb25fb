"""Take and examine `.lock` of a log directory, a POSIX lock that a running broker holds."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import LogDirInUseError
from tiersnap.snapshot.regular_file import NotRegularFileError, kind_of, open_regular

_log = logging.getLogger(__name__)

# O_NOFOLLOW: through a link, root would create a file elsewhere and give it to the directory's owner.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
# (device, inode) of the lock files that this process holds. A process loses the lock if it closes any descriptor of the
# file. So `holder_of` must not open these files.
_OURS: set[tuple[int, int]] = set()


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Hold the lock of a log directory, so that no broker starts while its files change.

    Raises:
        LogDirInUseError: a broker holds the lock.
        UsageError: this user may not open `.lock`, or the file is not regular.
    """
    path = log_dir / ".lock"
    try:
        descriptor = _open(log_dir)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise cannot_write(path, error) from error
            raise LogDirInUseError(
                f"{log_dir}: a broker is running on this directory (it holds the lock file .lock)",
                hint="stop the broker first, because it reads snapshots only when it opens a partition; commands "
                "that only read are safe while it runs",
            ) from error
        _log.debug("locked %s", path)
        _OURS.add(_identity(os.fstat(descriptor)))
        yield
    finally:
        _OURS.discard(_identity(os.fstat(descriptor)))
        # Closing releases the lock. A broker leaves the file, too: deleting it could delete the lock of a new holder.
        os.close(descriptor)


def _open(log_dir: Path) -> int:
    directory = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                return _regular(os.open(".lock", _FLAGS, dir_fd=directory), log_dir)
            # No broker ran here yet. A later broker runs as the directory's owner and must be able to open the file.
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(".lock", _FLAGS | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory)
                owner = os.fstat(directory)
                if os.geteuid() == 0:
                    os.fchown(descriptor, owner.st_uid, owner.st_gid)
                return descriptor
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularFileError("a symbolic link", str(log_dir / ".lock")) from error
        raise
    finally:
        os.close(directory)


def _regular(descriptor: int, log_dir: Path) -> int:
    kind = kind_of(os.fstat(descriptor).st_mode)
    if kind is not None:
        os.close(descriptor)
        raise NotRegularFileError(kind, str(log_dir / ".lock"))
    return descriptor


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def holder_of(log_dir: Path) -> int | None:
    """Return the process id of the broker that holds `.lock`, or None if no process does.

    The kernel returns the holder (F_GETLK) without taking the lock; read permission suffices. For a process of another
    container, the kernel returns 0. If this process holds the lock, return None.

    Raises:
        OSError: this user may not read `.lock`, the file is not regular, or the system cannot name the holder.
    """
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        raise OSError(errno.ENOTSUP, "only 64-bit Linux shows which process holds a lock")
    path = log_dir / ".lock"
    try:
        if _identity(path.lstat()) in _OURS:
            return None
        descriptor = open_regular(path)
    except FileNotFoundError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def is_in_use(log_dir: Path) -> bool:
    """Return whether a broker runs on the directory; False if that is unknown."""
    try:
        return holder_of(log_dir) is not None
    except OSError:
        return False


def started_at(log_dir: Path) -> int | None:
    """Return the start time of the broker that holds `.lock`, in ms since the epoch.

    Return None if no process holds the lock, or if the holder is unknown (a process of another container).
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        pid = holder_of(log_dir)
        if pid:
            return int(started(Path(f"/proc/{pid}"), Path("/proc")) * 1000)
    return None


def started(process: Path, proc: Path) -> float:
    """Return the start time of a process in seconds since the epoch, exact to about 0.01 s."""
    # The second field is the process name in parentheses, which may contain blanks. So count after the last `)`.
    fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    boot = next(line.split()[1] for line in (proc / "stat").read_text().splitlines() if line.startswith("btime "))
    return int(boot) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
