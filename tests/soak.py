"""`make soak`: generated logs against oracles, and mutated bytes against every parser, for as long as one likes.

The readable fold and the replay that ships are compared in this process. Where Java is at hand, the main job runs on
the same logs, and with Kafka's jars they are folded by Kafka's own classes. A seed that differs is printed and written
again by `tests.reference.random_log.write_random_partition`.

Usage: python -m tests.soak [--first N] [--logs N] [--inputs N] [--seconds N] [--without-kafka] [--without-spark]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.broker.harness import jars
from tests.broker.oracle.fold import VERSION, fold_oracle
from tests.broker.oracle.judge import entries
from tests.fuzz.run import main as fuzz
from tests.reference.agreeing import disagreements
from tests.reference.local_replay import local_replay
from tests.reference.main_job import NO_TIERING, disagreements_of_run
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir

CHUNK = 500


def against_kafka(log_dir: Path, out: Path) -> Iterator[str]:
    """What Kafka's classes say otherwise of the partitions in `log_dir`."""
    partitions = list(open_log_dir(str(log_dir)).partitions())
    folded = fold_oracle([Path(each.path) for each in partitions], out)
    for partition in partitions:
        _, boundaries = local_replay(LOCAL, partition)
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
    options.add_argument("--without-spark", action="store_true")
    given = options.parse_args()
    has_java = shutil.which("java") is not None
    with_kafka = has_java and not given.without_kafka and jars.folder(VERSION).exists()
    with_spark = has_java and not given.without_spark
    failures, logs, until = 0, 0, time.monotonic() + given.seconds
    while logs < given.logs and time.monotonic() < until:
        first = given.first + logs
        count = min(CHUNK, given.logs - logs)
        with tempfile.TemporaryDirectory(prefix="tiersnap-soak-") as folder:
            log_dir = Path(folder) / "logs"
            found = [
                disagreements(log_dir, range(first, first + count)),
                against_kafka(log_dir, Path(folder) / "kafkas") if with_kafka else (),
                disagreements_of_run(log_dir, Path(folder), *NO_TIERING) if with_spark else (),
            ]
            for said in chain.from_iterable(found):
                failures += 1
                print(said, flush=True)
        logs += count
    others = [name for name, is_asked in (("Kafka's classes", with_kafka), ("the main job", with_spark)) if is_asked]
    by = ", ".join(["the replay", "the readable fold", *others])
    print(f"{logs} logs from seed {given.first} on, folded by {by}: {failures} differ", flush=True)
    sys.argv = [sys.argv[0], "--inputs", str(given.inputs)]
    return 1 if (fuzz() if given.inputs else 0) or failures else 0


if __name__ == "__main__":
    sys.exit(main())
