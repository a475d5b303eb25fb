"""Header decode and fold on one core, against Kafka's replay of the same files and against the machine's limit."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np

from tests.perf.kafka_replay import kafka_replay
from tests.perf.make_log import LogShape, MadeLog, made
from tests.perf.measure import Row, interleaved, timed, warm_cache
from tests.perf.scale import Scale
from tests.reference.local_replay import local_replay
from tiersnap.snapshot.formats.snapshot_file import encode
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir, read_partition


def partition_of(log: MadeLog, name: str = "perf-0") -> Partition:
    """The listed partition."""
    listed = open_log_dir(log.path)
    return read_partition(listed.filesystem, f"{log.path}/{name}", listed.checkpoints)


def replay(partition: Partition, *, check_crc: bool) -> list[bytes]:
    """The whole fold of a partition: snapshot bytes at each boundary and at the log end."""
    done, boundaries = local_replay(LOCAL, partition, check_crc=check_crc)
    made_here = [encode(boundary.entries) for boundary in boundaries]
    assert done.damage is None
    assert done.refusal is None
    return made_here


def rows(scale: Scale) -> Iterator[Row]:
    """Both batch sizes, without and with CRC; the peer warmed up, and in its first replay."""
    for batch_bytes, label in ((300, "300 B"), (4096, "4 KiB")):
        # One segment in sixteen is the active one, which is read and not mapped.
        log = made(LogShape(batch_bytes, scale.log_bytes, scale.log_bytes // 16))
        partition = partition_of(log)
        warm_cache(sorted(log.partition.glob("*.log")))
        with kafka_replay([log.partition]) as kafka:
            headers, with_crc, warm = interleaved(
                scale.repetitions,
                timed(lambda partition=partition: replay(partition, check_crc=False)),
                timed(lambda partition=partition: replay(partition, check_crc=True)),
                kafka.seconds,
            )
            assert kafka.batches == log.batches
        first = statistics.median(first_replay(log) for _ in range(3))
        peers = (("warmed up", warm), ("first replay of a JVM", first))
        for what, ours, at_least in (
            ("decode and fold, one core", headers, 20 if batch_bytes == 300 else None),
            ("the same with every CRC-32C checked", with_crc, None),
        ):
            for peer, theirs in peers:
                ratio = theirs / ours
                yield Row(
                    f"{what}, {label}, Kafka {peer}",
                    f"≥ {at_least}\N{MULTIPLICATION SIGN}" if at_least else "",
                    _speed(log, ours),
                    _speed(log, theirs),
                    ratio,
                    ratio >= at_least if at_least else None,
                )
        if batch_bytes == 4096:
            yield _limit(partition, log, headers, "one byte of each page", np.uint8, 4096, at_least=0.3)
            yield _limit(partition, log, with_crc, "every byte, with every CRC-32C checked", np.int64, 1, at_least=0.7)


def first_replay(log: MadeLog) -> float:
    """As after the start of a broker, but for the start itself."""
    with kafka_replay([log.partition]) as kafka:
        return kafka.seconds()


def _speed(log: MadeLog, seconds: float) -> str:
    return f"{log.batches / seconds / 1e6:.2f} M batches/s ({log.size / seconds / 1e6:.0f} MB/s)"


def _limit(
    partition: Partition, log: MadeLog, ours: float, what: str, kind: type, step: int, *, at_least: float
) -> Row:
    """How fast one core can as much as look at what it must look at."""

    def look() -> None:
        for segment in partition.segments:
            shape = (segment.log.size // np.dtype(kind).itemsize,)
            np.bitwise_xor.reduce(np.memmap(segment.log.path, kind, "r", shape=shape)[::step])

    (limit,) = interleaved(5, timed(look))
    ratio = limit / ours
    return Row(
        f"decode and fold, one core, 4 KiB, against a look at {what}",
        f"≥ {at_least} of it",
        _speed(log, ours),
        f"{_speed(log, limit)} (xor over maps, one core)",
        ratio,
        ratio >= at_least,
    )
