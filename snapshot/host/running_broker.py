"""The broker that runs on a log directory: its process, its release, and the settings with which it was started.

A broker holds a POSIX lock on `.lock` for as long as it runs (kafka.log.LogManager, kafka's server.util.FileLock). Its
settings are its server.properties, and what its command line overrides (kafka.Kafka.getPropsFromArgs):

    java [options] <main class> <server.properties> [--override name=value] ...

The command line names the file as the broker's process sees it, so a path is resolved by the process' own root and
working directory: it may run in a container. Needs the rights of that process' user. The settings hold secrets: nothing
here logs or shows a value.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections import deque
from collections.abc import Sequence
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
    """The holder of the lock."""

    pid: int  # 0 where it is a process of another container
    version: str | None  # of the broker, from the class path of its process; None where that cannot be told


def lock_holder(log_dir: Path) -> Holder | None:
    """Return who holds `.lock` of a log directory; None if nobody does, or no broker ever ran there.

    Raises:
        OSError: as `holder_of`.
    """
    pid = holder_of(log_dir)
    return None if pid is None else Holder(pid, broker_version(pid))


def broker_version(pid: int) -> str | None:
    """Version of the Kafka jar that a process was started with; None where there is none or it may not be seen."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{pid}/environ").read_bytes() if b"kafka" in command else b""
    except OSError:
        return None
    # A long class path is given in the environment or by a glob, which the JVM has opened by now.
    opened = b"\0".join(_opened(pid)) if b"kafka" in command else b""
    found = _JAR.search(b"/" + command) or _JAR.search(environment) or _JAR.search(opened)
    return None if found is None else found["version"].decode("ascii", "replace")


def _opened(pid: int) -> list[bytes]:
    """Names of the files that a process has open, as far as this user may see them."""
    opened = []
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed since it was listed
                opened.append(os.fsencode(link.readlink()))
    return opened


_LARGEST = 4 << 20  # bytes
_MOST_LINKS = 40  # as the kernel follows
_START_SECONDS = 2.0  # a broker reads its settings about then, and the time of its start is known to a second
# Options of `java` whose value is the next word.
_WITH_VALUE = frozenset(
    {
        *("-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path"),
        *("--add-modules", "--add-exports", "--add-opens", "--add-reads", "--limit-modules", "--patch-module"),
    }
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings that a broker was started with."""

    pid: int  # 0 if they were read from a file alone
    path: str  # of the server.properties, as the process sees it
    values: dict[str, str]  # by name; they hold secrets
    root: str  # what `/` of the process is called here; a path of its settings is to be looked at below it
    directory: str  # the working directory of the process, as it sees it

    @property
    def named_log_dirs(self) -> tuple[str, ...]:
        """Return its log.dirs as it names them."""
        named = self.values.get("log.dirs") or self.values.get("log.dir") or "/tmp/kafka-logs"
        return tuple(each.strip() for each in named.split(",") if each.strip())

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Return the paths of its log.dirs on this host. Raises OSError: links lead round in a circle."""
        return tuple(map(self.on_host, self.named_log_dirs))

    def on_host(self, path: str) -> str:
        """Return the path on this host of a path in the settings. Raises OSError: links lead round in a circle."""
        found = str(self.located(path))
        shares_root = not self.root or Path(self.root).samefile("/")
        return found.removeprefix(self.root) if shares_root else found

    def located(self, path: str) -> Path:
        """Return what a path in the settings is called here. Raises OSError: links lead round in a circle."""
        return _inside(self.root, posixpath.join(self.directory, path))


def broker_settings(pid: int, *, proc: Path = Path("/proc")) -> BrokerSettings:
    """Read the settings of the broker that runs as process `pid`.

    Raises:
        OSError: this user may not look, the process is no broker, or the file was changed after it had started; its
            `strerror` says which.
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
        raise OSError(errno.EFBIG, f"{path}: no server.properties is that large")
    if changed > started(process, proc) + _START_SECONDS:
        raise OSError(errno.ESTALE, f"{path} was changed after the broker had started")
    values = java_properties.parse(data.decode("utf-8", "replace")) | overrides
    return BrokerSettings(pid, path, values, root, directory)


def _inside(root: str, path: str) -> Path:
    """Return an absolute path below `root` without links; of a process in a container the kernel would follow an
    absolute link to a file of this host.
    """
    found, links = "", 0
    parts = deque(path.split("/"))
    while parts:
        part = parts.popleft()
        if part in ("", ".", ".."):
            found = posixpath.dirname(found).rstrip("/") if part == ".." else found
            continue
        try:
            target = str(Path(f"{root}{found}/{part}").readlink())
        except OSError:  # no link, or not there: whoever opens it says so
            found = f"{found}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        found = "" if target.startswith("/") else found
        parts.extendleft(reversed(target.split("/")))
    return Path(root + found)


def arguments(command: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the server.properties that a broker's command line names, and its overrides by name.

    Raises:
        OSError: the command line is none of a broker.
    """
    words = iter(command[1:])
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith(("-", "@")):
            break  # the main class
    name, overrides = "", {}
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--override":
            setting, _, of_setting = (value if equals else next(words, "")).partition("=")
            overrides[setting.strip()] = of_setting.strip()
        elif word and not name:
            name = word
    if not name or name.startswith("-"):
        raise OSError(errno.ENOEXEC, "its command line names no server.properties")
    return name, overrides


def running_brokers(*, proc: Path = Path("/proc")) -> tuple[BrokerSettings, ...]:
    """Return the settings of the brokers that run on this host, as far as this user may read them.

    A process is a broker if it holds `.lock` of one of the log directories that its settings name.
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
    """Read the settings of a broker that does not run, or that runs in a container, from its server.properties.

    Raises:
        OSError: the file cannot be read, or is too large.
    """
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"{path}: no server.properties is that large")
    values = java_properties.parse(data.decode("utf-8", "replace"))
    return BrokerSettings(0, str(path), values, "", str(Path.cwd()))
