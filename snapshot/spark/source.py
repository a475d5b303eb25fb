"""`spark.read.format("kafkasegment")`: the batch headers of log segments as a DataFrame.

    from snapshot.spark.source import KafkaSegmentDataSource

    spark.dataSource.register(KafkaSegmentDataSource)
    (
        spark.read.format("kafkasegment").load("s3://broker-volumes/kafka-1")
        .where("topic = 'orders' and base_offset >= 1000000")
    )

Options: `path` (or load's argument), one log directory on file:, s3: or hdfs:; `checkCrc` (true); `taskBytes`
(134217728): segments are packed into tasks of about that size. Filters on topic, partition, segment_base_offset and
base_offset are pushed down: a segment that cannot hold a wanted row is not opened. Columns are those of
tables.RECORD_BATCHES; a damaged segment gives its rows up to the damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from snapshot import tables
from snapshot.delta_rows import batches_to_table
from snapshot.log_dir import Segment, open_log_dir, read_partition, resolve
from snapshot.segment_scan import SegmentScan
from snapshot.spark.schemas import RECORD_BATCHES

DEFAULT_TASK_BYTES = 128 << 20
Comparison = EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
Value = Any  # of a column: text or number
_PRUNED = ("topic", "partition", "segment_base_offset", "base_offset")


@dataclass(frozen=True)
class SegmentRef:
    """A segment to decode; paths are inside the filesystem of `log_dir`."""

    log_dir: str
    topic: str
    partition: int
    base_offset: int
    next_base_offset: int | None
    path: str
    size: int


class SegmentTask(InputPartition):
    """The segments of one Spark task."""

    def __init__(self, segments: list[SegmentRef]) -> None:
        super().__init__(None)
        self.segments = segments


class KafkaSegmentDataSource(DataSource):
    """Batch headers of a broker's log directory."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafkasegment"

    def schema(self) -> StructType:
        """The columns of record_batches."""
        return RECORD_BATCHES

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the `path` option."""
        options = {name.lower(): value for name, value in self.options.items()}
        if "path" not in options:
            raise ValueError("kafkasegment: no path; give one log directory: .load('/var/lib/kafka/data')")
        return KafkaSegmentReader(
            options["path"],
            check_crc=options.get("checkcrc", "true").lower() == "true",
            task_bytes=int(options.get("taskbytes", DEFAULT_TASK_BYTES)),
        )


class KafkaSegmentReader(DataSourceReader):
    """Plans tasks on the driver, decodes on executors."""

    def __init__(self, path: str, *, check_crc: bool, task_bytes: int) -> None:
        self._path, self._check_crc, self._task_bytes = path, check_crc, task_bytes
        self._filters: list[Comparison] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take what prunes segments; Spark still applies each, because pruning keeps whole segments."""
        for each in filters:
            if isinstance(each, Comparison) and len(each.attribute) == 1 and each.attribute[0] in _PRUNED:
                self._filters.append(each)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        """Segments that can hold a wanted row, packed by size in the order of the log."""
        tasks: list[list[SegmentRef]] = []
        size = self._task_bytes
        for segment in self._segments():
            if size + segment.size > self._task_bytes:
                tasks.append([])
                size = 0
            tasks[-1].append(segment)
            size += segment.size
        return [SegmentTask(task) for task in tasks] or [SegmentTask([])]

    def _segments(self) -> Iterator[SegmentRef]:
        log_dir = open_log_dir(self._path)
        for folder in log_dir.folders:
            topic, _, number = folder.rpartition("-")
            if not self._can_match("topic", topic, topic) or not self._can_match("partition", int(number), int(number)):
                continue
            partition = read_partition(log_dir.filesystem, f"{log_dir.path}/{folder}", log_dir.checkpoints)
            for segment in partition.segments:
                if self._holds_wanted_offsets(segment):
                    yield SegmentRef(
                        self._path,
                        partition.topic,
                        partition.partition,
                        segment.base_offset,
                        segment.next_base_offset,
                        segment.log.path,
                        segment.log.size,
                    )

    def _holds_wanted_offsets(self, segment: Segment) -> bool:
        last = None if segment.next_base_offset is None else segment.next_base_offset - 1
        base = segment.base_offset
        return self._can_match("segment_base_offset", base, base) and self._can_match("base_offset", base, last)

    def _can_match(self, column: str, least: Value, greatest: Value | None) -> bool:
        """Whether a value in [least, greatest] (None: no upper end) passes all filters on the column."""
        return all(_overlaps(each, least, greatest) for each in self._filters if each.attribute[0] == column)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode the segments of a task."""
        assert isinstance(partition, SegmentTask)
        filesystem, _ = resolve(self._path)
        for segment in partition.segments:
            scan = SegmentScan(
                filesystem,
                segment.path,
                base_offset=segment.base_offset,
                next_base_offset=segment.next_base_offset,
                check_crc=self._check_crc,
            )
            identity = {
                "log_dir": segment.log_dir,
                "topic": segment.topic,
                "partition": segment.partition,
                "segment_base_offset": segment.base_offset,
            }
            for rows in scan:
                table = batches_to_table(rows, identity, tables.RECORD_BATCHES)
                # Spark casts nothing, and reads no dictionaries.
                yield from table.cast(tables.RECORD_BATCHES).combine_chunks().to_batches()


def _overlaps(each: Comparison, least: Value, greatest: Value | None) -> bool:
    """Whether some value in [least, greatest] (None: no upper end) passes the filter."""
    match each:
        case EqualTo():
            return _holds(least, greatest, each.value)
        case In():
            return any(_holds(least, greatest, value) for value in each.value)
        case GreaterThan():
            return greatest is None or bool(greatest > each.value)
        case GreaterThanOrEqual():
            return greatest is None or bool(greatest >= each.value)
        case LessThan():
            return bool(least < each.value)
        case LessThanOrEqual():
            return bool(least <= each.value)


def _holds(least: Value, greatest: Value | None, value: Value) -> bool:
    return bool(least <= value and (greatest is None or value <= greatest))
