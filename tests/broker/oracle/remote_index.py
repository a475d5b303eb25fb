"""What brokers find after each record of some partitions, by Kafka's own RemoteLogMetadataCache: one JVM for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.broker.oracle.java import compiled, run_java
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate

SOURCE = Path(__file__).with_name("RemoteIndexOracle.java")
MAIN = "org.apache.kafka.server.log.remote.metadata.storage.RemoteIndexOracle"
Table = dict[tuple[int, int], str]
Record = SegmentRecord | SegmentUpdate


@dataclass(frozen=True)
class Cached:
    """What the cache says.

    Attributes:
        found: segment id by (epoch, offset).
        highest: last offset of an epoch that was ever finished, by epoch.
        segments: ids of all that are not deleted.
    """

    found: Table
    highest: dict[int, int]
    segments: set[str]


def remote_index_oracle(
    version: str, partitions: Iterable[Sequence[Record]], folder: Path, *, epochs: range, offsets: range
) -> Iterator[list[Cached]]:
    """For each partition, what the cache says after each of its records."""
    numbers: dict[str, int] = {}
    histories = list(partitions)
    asked = folder / "cases"
    asked.write_text("".join(_lines(histories, numbers)))
    words = [str(asked), str(epochs.stop), str(offsets.stop)]
    said = iter(run_java(version, MAIN, words, classes=compiled(SOURCE, version)).splitlines())
    names = list(numbers)
    cells = [(epoch, offset) for epoch in epochs for offset in offsets]
    for records in histories:
        yield [_cached(next(said), names, cells, epochs) for _ in records]


def _cached(line: str, names: Sequence[str], cells: Sequence[tuple[int, int]], epochs: range) -> Cached:
    found, highest, segments = line.split("|")
    return Cached(
        {cell: names[int(name)] for cell, name in zip(cells, found.split(), strict=True) if name != "."},
        {epoch: int(end) for epoch, end in zip(epochs, highest.split(), strict=True) if end != "."},
        {names[int(name)] for name in segments.split()},
    )


def _lines(histories: Iterable[Sequence[Record]], numbers: dict[str, int]) -> Iterator[str]:
    for records in histories:
        yield "NEW\n"
        for record in records:
            if isinstance(record, SegmentUpdate):
                yield f"UPDATE {numbers.setdefault(record.id.segment_id, len(numbers))} {record.state.name}\n"
            else:
                each = record.metadata
                epochs = ",".join(f"{epoch}:{start}" for epoch, start in each.segment_leader_epochs)
                number = numbers.setdefault(each.id.segment_id, len(numbers))
                yield f"SEGMENT {number} {each.start_offset} {each.end_offset} {epochs}\n"
