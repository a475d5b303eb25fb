"""Find the broker that runs on a log directory: its process, its release and its settings.

A broker holds a POSIX lock on `.lock` as long as it runs (kafka.log.LogManager, kafka's server.util.FileLock). The
broker's command line names server.properties, and may override settings in this file (kafka.Kafka.getPropsFromArgs):

    java [options] <main class> <server.properties> [--override name=value] ...

The process may run in a container. So paths are resolved in the root directory and the working directory of the
process. Only the user of the process and the superuser may read these directories. The settings contain secrets, so no
value is logged or printed.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.formats import java_properties
from tiersnap.snapshot.log.lock import holder_of, started
from tiersnap.snapshot.regular_file import open_regular

# The jar of the server on a class path: kafka_2.13-3.9.1.jar, kafka-server-4.1.1.jar.
_JAR = re.compile(rb"/kafka(?:_2\.[0-9]+|-server)-(?P<version>[0-9]+(?:\.[0-9]+){1,3}[\w.+-]*?)\.jar")


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the lock."""

    pid: int  # 0 for a process of another container
    version: str | None  # of the broker, from the class path of the process; None if unknown


def lock_holder(log_dir: Path) -> Holder | None:
    """Return the process that holds `.lock` of a log directory, or None.

    Raises:
        OSError: see `holder_of`.
    """
    pid = holder_of(log_dir)
    if pid is None:
        return None
    return Holder(pid, broker_version(pid))


def broker_version(pid: int) -> str | None:
    """Return the version of the Kafka jar of a process; None without one, or if this user may not read the process."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        places = [b"/" + command]
        if b"kafka" in command:
            # A long class path may be in the environment. If it is a glob, find the jar among the open files.
            places += [Path(f"/proc/{pid}/environ").read_bytes(), b"\0".join(_opened(pid))]
    except OSError:
        return None
    for place in places:
        if (found := _JAR.search(place)) is not None:
            return found["version"].decode("ascii", "replace")
    return None


def _opened(pid: int) -> list[bytes]:
    """Return the names of a process's open files, without the names that this user may not read."""
    opened = []
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed in between
                opened.append(os.fsencode(link.readlink()))
    return opened


_LARGEST = 4 << 20  # bytes
_MOST_LINKS = 40  # the kernel's limit
_START_SECONDS = 2.0  # a broker reads its settings within this time after its start
# Options of `java` whose value is the next word.
_WITH_VALUE = frozenset(
    {
        *("-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path"),
        *("--add-modules", "--add-exports", "--add-opens", "--add-reads", "--limit-modules", "--patch-module"),
    }
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings with which a broker was started."""

    pid: int  # 0 if the settings come from a file without a process
    path: str  # path of server.properties inside the process's root
    values: dict[str, str]  # by name; contains secrets
    root: str  # path on this host of the process's root directory
    directory: str  # working directory of the process, inside its root

    @property
    def named_log_dirs(self) -> tuple[str, ...]:
        """Return the log directories in the settings (log.dirs, else log.dir, else Kafka's default)."""
        named = self.values.get("log.dirs") or self.values.get("log.dir") or "/tmp/kafka-logs"
        return tuple(each.strip() for each in named.split(",") if each.strip())

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Return the log directories as paths on this host. Raises OSError: a path has too many links."""
        return tuple(map(self.on_host, self.named_log_dirs))

    def on_host(self, path: str) -> str:
        """Resolve a path in the broker's settings to a path on this host.

        Raises:
            OSError: the path has too many links.
        """
        found = str(self.located(path))
        if not self.root or Path(self.root).samefile("/"):
            return found.removeprefix(self.root)
        return found

    def located(self, path: str) -> Path:
        """Resolve a path in the broker's settings to a path that tiersnap can open. Raises OSError: too many links."""
        return _inside(self.root, posixpath.join(self.directory, path))


def broker_settings(pid: int, *, proc: Path = Path("/proc")) -> BrokerSettings:
    """Read the settings of the broker that runs as process `pid`.

    Raises:
        OSError: this user may not read them, the process is no broker, or server.properties was changed after the
            broker's start. `strerror` has the reason.
    """
    process = proc / str(pid)
    words = [os.fsdecode(word) for word in (process / "cmdline").read_bytes().split(b"\0")]
    name, overrides = arguments(words)
    root, directory = f"{process}/root", str((process / "cwd").readlink())
    path = posixpath.join(directory, name)
    descriptor = open_regular(_inside(root, path))
    with os.fdopen(descriptor, "rb") as file:
        changed = os.fstat(descriptor).st_ctime
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"{path}: too large to be a server.properties file")
    if changed > started(process, proc) + _START_SECONDS:
        raise OSError(
            errno.ESTALE, f"{path} was changed after the broker started, so the broker may use other settings"
        )
    values = java_properties.parse(data.decode("utf-8", "replace")) | overrides
    return BrokerSettings(pid, path, values, root, directory)


def _inside(root: str, path: str) -> Path:
    """Return the file below `root` that `path` names, with all links resolved inside `root`.

    If the process runs in a container, its files may contain absolute links. The kernel would follow such a link to a
    file of this host.
    """
    found, links = "", 0
    parts = deque(path.split("/"))
    while parts:
        part = parts.popleft()
        if part == "..":
            found = posixpath.dirname(found).rstrip("/")
        if part in ("", ".", ".."):
            continue
        try:
            target = str(Path(f"{root}{found}/{part}").readlink())
        except OSError:  # no link; if the path is missing, opening it fails later
            found = f"{found}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            found = ""
        parts.extendleft(reversed(target.split("/")))
    return Path(root + found)


def arguments(command: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the path of server.properties on a broker's command line, and its overrides by name.

    Raises:
        OSError: the command line is not a broker's.
    """
    words = iter(command[1:])
    _skip_main_class(words)
    name, overrides = "", {}
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--override":
            setting, _, of_setting = (value if equals else next(words, "")).partition("=")
            overrides[setting.strip()] = of_setting.strip()
        elif word and not name:
            name = word
    if not name or name.startswith("-"):
        raise OSError(errno.ENOEXEC, "the command line of the broker process names no server.properties")
    return name, overrides


def _skip_main_class(words: Iterator[str]) -> None:
    """Skip the options of `java`, and the main class."""
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith(("-", "@")):
            return


def running_brokers(*, proc: Path = Path("/proc")) -> tuple[BrokerSettings, ...]:
    """Return the settings of each broker that runs on this host, without the brokers whose settings cannot be read.

    A process is a broker if its settings name a log directory, and if it holds the `.lock` of this directory.
    """
    found = []
    for process in sorted(proc.glob("[0-9]*")):
        with suppress(OSError):
            if b"properties" not in (process / "cmdline").read_bytes():
                continue
            settings = broker_settings(int(process.name), proc=proc)
            if any(holder_of(Path(each)) == settings.pid for each in settings.log_dirs):
                found.append(settings)
    return tuple(found)


def settings_of_file(path: Path) -> BrokerSettings:
    """Read the settings of a stopped broker, or of a broker in a container, from its server.properties.

    Raises:
        OSError: the file cannot be read, or is too large.
    """
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"{path}: too large to be a server.properties file")
    values = java_properties.parse(data.decode("utf-8", "replace"))
    return BrokerSettings(0, str(path), values, "", str(Path.cwd()))
