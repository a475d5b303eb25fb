"""The peer of the replay: Kafka 4.1.1's ProducerStateManager over the same files (KafkaReplay.java)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.broker.harness import jars
from tests.broker.oracle.java import compiled
from tests.perf.measure import Spent, spent

VERSION = "4.1.1"
_SOURCE = Path(__file__).with_name("KafkaReplay.java")
# A broker's own flags (kafka-run-class.sh), with the heap of a small one.
_FLAGS = ("-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class KafkaReplay:
    """A running JVM that replays on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.batches = 0
        self.cpu_seconds: list[float] = []

    def seconds(self) -> float:
        """Replay once more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self._cpu()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        batches, nanoseconds = self._process.stdout.readline().split()
        self.batches = int(batches)
        self.cpu_seconds.append(self._cpu() - before)
        return int(nanoseconds) / 1e9

    def _cpu(self) -> float:
        """Processor seconds of all its threads so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def kafka_replay(partitions: Sequence[Path]) -> Iterator[KafkaReplay]:
    """A JVM that replays the partition folders; it ends with the block."""
    with tempfile.TemporaryDirectory() as out:
        command = _command(partitions, out)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield KafkaReplay(process)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(60)


def spent_with_start(partitions: Sequence[Path], out: Path) -> Spent:
    """One replay, the start and the end of its JVM included, its snapshots in `out`."""
    compiled(_SOURCE, VERSION)
    return spent(_command(partitions, str(out)), ends_with=(0,), said="go\n")


def _command(partitions: Sequence[Path], out: str) -> list[str]:
    path = os.pathsep.join((str(compiled(_SOURCE, VERSION)), jars.classpath(VERSION)))
    return ["java", *_FLAGS, "-cp", path, "KafkaReplay", out, *map(str, partitions)]
