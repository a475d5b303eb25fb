"""What brokers find after each record of some partitions, by Kafka's own RemoteLogMetadataCache: one JVM for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.broker.oracle.java import compiled, run_java
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate

SOURCE = Path(__file__).with_name("RemoteIndexOracle.java")
MAIN = "org.apache.kafka.server.log.remote.metadata.storage.RemoteIndexOracle"
Table = dict[tuple[int, int], str]
Record = SegmentRecord | SegmentUpdate


def remote_index_oracle(
    version: str, partitions: Iterable[Sequence[Record]], folder: Path, *, epochs: range, offsets: range
) -> Iterator[list[Table]]:
    """For each partition, after each of its records: the segment id that is found for each (epoch, offset)."""
    numbers: dict[str, int] = {}
    histories = list(partitions)
    asked = folder / "cases"
    asked.write_text("".join(_lines(histories, numbers)))
    words = [str(asked), str(epochs.stop), str(offsets.stop)]
    said = iter(run_java(version, MAIN, words, classes=compiled(SOURCE, version)).splitlines())
    names = list(numbers)
    cells = [(epoch, offset) for epoch in epochs for offset in offsets]
    for records in histories:
        yield [
            {cell: names[int(name)] for cell, name in zip(cells, next(said).split(), strict=True) if name != "."}
            for _ in records
        ]


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
