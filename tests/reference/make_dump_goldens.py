"""Runs Kafka 4.1.1's own kafka-dump-log on every case; see tests/golden/dump-log-4.1.1/README.md."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.broker.harness import jars
from tests.reference.dump_cases import DATA, MADE, REAL, golden_of_made, golden_of_real

TOOL = ("java", "-XX:TieredStopAtLevel=1", "-cp", jars.classpath("4.1.1"), "kafka.tools.DumpLogSegments", "--files")


def print_into(golden: Path, folder: Path, *args: str) -> None:
    """Keep what the tool prints to stdout; it ends with a stack trace on some damage, which is as it should be."""
    done = subprocess.run([*TOOL, *args], cwd=folder, capture_output=True, check=False)
    golden.parent.mkdir(parents=True, exist_ok=True)
    golden.write_bytes(done.stdout)


with tempfile.TemporaryDirectory() as scratch:
    data = shutil.copytree(DATA, Path(scratch) / "data")  # the tool may create index files
    for path in REAL:
        print_into(golden_of_real(path), Path(data), path)
    for number, (name, made) in enumerate(MADE.items()):
        folder = Path(scratch) / str(number)
        print_into(golden_of_made(name), folder, made.write(folder), *made.flags)
