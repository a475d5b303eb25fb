"""One Java process with its output in a file, ended by its own pid and by nothing broader."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.broker.harness import jars

# C1 and the serial collector: a broker here lives for ten seconds.
LOG4J1 = Path(__file__).parent / "log4j.properties"
JVM_FLAGS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:cds=error", "-Xlog:cds+dynamic=error"),
    f"-Dlog4j.configuration={LOG4J1.as_uri()}",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
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
    """`java -cp <jars of version> main args`, started at once.

    With `archive_classes` the classes that the first such process has loaded are kept beside the jars when it is
    stopped, and those that follow start from them in half the time (Java's class data sharing; an archive that does
    not fit this Java or these jars is ignored by the JVM).
    """

    def __init__(
        self,
        version: str,
        main: str,
        args: Sequence[str],
        log: Path,
        *,
        archive_classes: bool = False,
        heap_megabytes: int = 700,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._archive = jars.folder(version) / f"{main}.jsa"
        self._partial_archive = self._archive.with_suffix(f".{os.getpid()}.partial")
        flags = [f"-Xmx{heap_megabytes}m", *JVM_FLAGS]
        if self._archive.exists():
            flags.append(f"-XX:SharedArchiveFile={self._archive}")
        elif archive_classes:
            flags.append(f"-XX:ArchiveClassesAtExit={self._partial_archive}")
        self.log = LogFile(log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Its own process group: a Ctrl-C at the terminal is for the test run, which then ends this process itself.
            self._process = subprocess.Popen(
                ["java", *flags, "-cp", jars.classpath(version), main, *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                env={**os.environ, **(environment or {})},
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
            if self._partial_archive.exists():
                self._partial_archive.rename(self._archive)
        return time.monotonic() - began

    def pause(self) -> None:
        """Hold it (SIGSTOP), until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on where it was held."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """`kill -9` of this one process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(STOP_SECONDS)
