"""One Java process with its output in a file, ended by its own pid and by nothing broader."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.broker.harness import jars

# C1 and the serial collector halve what a broker that lives for ten seconds costs; what it does is the same.
JVM_FLAGS = ("-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
LOG4J1 = Path(__file__).parent / "log4j.properties"
STOP_SECONDS = 60.0


class ProcessEndedError(AssertionError):
    """Raised when a process ended that was meant to run; carries the end of its output."""


class LogFile:
    """What a process printed, read anew at each question."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def text(self) -> str:
        return self.path.read_text(errors="replace") if self.path.exists() else ""

    def count(self, needle: str) -> int:
        """How often `needle` occurs, for instance `producerStateSnapshotFile`."""
        return self.text().count(needle)

    def lines(self, needle: str) -> list[str]:
        return [line for line in self.text().splitlines() if needle in line]

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.text().splitlines()[-lines:])


class JavaProcess:
    """`java -cp <jars of version> main args`, started at once."""

    def __init__(
        self,
        version: str,
        main: str,
        args: Sequence[str],
        log: Path,
        *,
        system_properties: Mapping[str, str] | None = None,
    ) -> None:
        properties = {
            "log4j.configuration": LOG4J1.as_uri(),
            "org.slf4j.simpleLogger.showDateTime": "true",
            "org.slf4j.simpleLogger.dateTimeFormat": "HH:mm:ss.SSS",
            **(system_properties or {}),
        }
        command = ["java", *JVM_FLAGS, *(f"-D{key}={value}" for key, value in properties.items())]
        command += ["-cp", jars.classpath(version), main, *args]
        self.log = LogFile(log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Its own process group: a Ctrl-C at the terminal is for the test run, which then ends this process itself.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ensure_running(self) -> None:
        """Raises:
        ProcessEndedError: the process has ended.
        """
        if not self.running:
            raise ProcessEndedError(f"ended with {self._process.returncode}; {self.log.path}:\n{self.log.tail()}")

    def wait(self, seconds: float) -> int:
        """Its return code, waited for; a process that outlasts `seconds` is killed."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def stop(self, seconds: float = STOP_SECONDS) -> float:
        """Ask it to end (SIGTERM), wait, and only past `seconds` kill it; returns the seconds it took."""
        began = time.monotonic()
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return time.monotonic() - began

    def kill(self) -> None:
        """`kill -9` of this one process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(STOP_SECONDS)


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listened on a moment ago, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def listens(port: int) -> bool:
    """Whether somebody accepts connections on 127.0.0.1:`port`."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
