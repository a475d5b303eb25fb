"""`make soak`: generated logs against two oracles, and mutated bytes against every parser, for as long as one likes.

The readable fold and the replay that ships are compared in this process; where Java and Kafka's jars are at hand, the
same logs are folded by Kafka's own classes. A seed that differs is printed and written again by
`tests.reference.random_log.write_random_partition`.

Usage: python -m tests.soak [--first N] [--logs N] [--inputs N] [--seconds N] [--without-kafka]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

from tests.broker.harness import jars
from tests.broker.oracle.fold import VERSION, fold_oracle
from tests.broker.oracle.judge import entries
from tests.fuzz.run import main as fuzz
from tests.reference.agreeing import disagreements
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.state.partition_replay import local_replay

CHUNK = 500


def against_kafka(log_dir: Path, out: Path) -> Iterator[str]:
    """What Kafka's classes say otherwise of the partitions in `log_dir`."""
    partitions = list(open_log_dir(str(log_dir)).partitions())
    folded = fold_oracle([Path(each.path) for each in partitions], out)
    for partition in partitions:
        _, boundaries = local_replay(fs.LocalFileSystem(), partition)
        ours = {each.offset: [tuple(row) for row in each.entries.tolist()] for each in boundaries}
        kafkas = {offset: entries(data) for offset, data in folded[partition.name].items()}
        if ours != kafkas:
            yield f"{partition.name}: Kafka's classes fold it otherwise at {sorted(kafkas.keys() ^ ours.keys()) or ''}"


def main() -> int:
    """1 if anything differed."""
    options = argparse.ArgumentParser()
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--logs", type=int, default=100_000)
    options.add_argument("--inputs", type=int, default=1_000_000)
    options.add_argument("--seconds", type=float, default=float("inf"), help="for the logs")
    options.add_argument("--without-kafka", action="store_true")
    given = options.parse_args()
    is_asked = not given.without_kafka and shutil.which("java") is not None and jars.folder(VERSION).exists()
    failures, logs, until = 0, 0, time.monotonic() + given.seconds
    while logs < given.logs and time.monotonic() < until:
        first = given.first + logs
        count = min(CHUNK, given.logs - logs)
        with tempfile.TemporaryDirectory(prefix="tiersnap-soak-") as folder:
            log_dir = Path(folder) / "logs"
            for said in disagreements(log_dir, range(first, first + count)):
                failures += 1
                print(said, flush=True)
            for said in against_kafka(log_dir, Path(folder) / "kafkas") if is_asked else ():
                failures += 1
                print(said, flush=True)
        logs += count
    kafka = "and by Kafka's classes" if is_asked else "(no Kafka here)"
    print(f"{logs} logs from seed {given.first} on, folded by both {kafka}: {failures} differ", flush=True)
    sys.argv = [sys.argv[0], "--inputs", str(given.inputs)]
    return 1 if (fuzz() if given.inputs else 0) or failures else 0


if __name__ == "__main__":
    sys.exit(main())
