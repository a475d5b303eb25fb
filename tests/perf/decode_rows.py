"""Header decode and fold on one core, against Kafka's replay of the same files."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pyarrow import fs

from snapshot import snapshot_file
from snapshot.log_dir import Partition, open_log_dir, read_partition
from snapshot.partition_replay import local_replay
from snapshot.snapshot_file import encode
from tests.perf.kafka_replay import kafka_replay
from tests.perf.make_log import LogShape, MadeLog, made
from tests.perf.measure import Row, interleaved, timed, warm_cache
from tests.perf.scale import Scale


def partition_of(log: MadeLog, name: str = "perf-0") -> Partition:
    """The listed partition."""
    listed = open_log_dir(log.path)
    return read_partition(listed.filesystem, f"{log.path}/{name}", listed.checkpoints)


def replay(partition: Partition, *, check_crc: bool) -> list[bytes]:
    """The whole fold of a partition: snapshot bytes at each boundary and at the log end."""
    done, boundaries = local_replay(fs.LocalFileSystem(), partition, check_crc=check_crc)
    made_here = [encode(boundary.entries) for boundary in boundaries]
    assert done.damage is None
    assert done.refusal is None
    return made_here


def rows(scale: Scale) -> Iterator[Row]:
    """Both batch sizes, without and with CRC."""
    for batch_bytes, label in ((300, "300 B"), (4096, "4 KiB")):
        # One segment in sixteen is the active one, which is read and not mapped.
        segment = scale.log_bytes // 16
        log = made(LogShape(batch_bytes, scale.log_bytes, segment))
        partition = partition_of(log)
        warm_cache(sorted(log.partition.glob("*.log")))
        spent: dict[bool, list[float]] = {False: [], True: []}

        def ours(check_crc: bool, partition: Partition = partition, spent: dict[bool, list[float]] = spent) -> None:
            began = time.process_time()
            replay(partition, check_crc=check_crc)
            spent[check_crc].append(time.process_time() - began)

        with kafka_replay([log.partition]) as kafka:
            headers, with_crc, theirs = interleaved(
                scale.repetitions,
                timed(lambda ours=ours: ours(False)),
                timed(lambda ours=ours: ours(True)),
                kafka.seconds,
            )
            assert kafka.batches == log.batches

        def by_cpu(
            check_crc: bool, spent: dict[bool, list[float]] = spent, kafka: list[float] = kafka.cpu_seconds
        ) -> str:
            # The first round compiles.
            ratio = statistics.median(kafka[1:]) / statistics.median(spent[check_crc][1:])
            return f"{ratio:.1f} times by processor time, which other work on the machine hardly changes"

        def speed(seconds: float, log: MadeLog = log) -> str:
            return f"{log.batches / seconds / 1e6:.2f} M batches/s ({log.size / seconds / 1e6:.0f} MB/s)"

        ratio = theirs / headers
        yield Row(
            f"decode and fold, one core, warm, {label}",
            "≥ 20\N{MULTIPLICATION SIGN}",
            speed(headers),
            speed(theirs),
            ratio,
            ratio >= 20,
            by_cpu(False),
        )
        ratio = theirs / with_crc
        at_least = 8 if batch_bytes == 4096 else None
        yield Row(
            f"the same with every CRC-32C checked, {label}",
            "≥ 8\N{MULTIPLICATION SIGN}" if at_least else "",
            speed(with_crc),
            speed(theirs),
            ratio,
            ratio >= at_least if at_least else None,
            by_cpu(True),
        )


def same_as_kafka(ours: bytes, theirs: Path) -> bool:
    """Whether both say the same of every producer; Kafka writes in the order of its hash map."""
    return np.array_equal(snapshot_file.decode(ours), snapshot_file.decode(theirs.read_bytes()))
