"""`spark.read.format("kafkasegment")`: the batch headers of log segments as a DataFrame.

    from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource

    spark.dataSource.register(KafkaSegmentDataSource)
    (
        spark.read.format("kafkasegment")
        .option("topic", "orders").option("fromOffset", 1_000_000)
        .load("s3://broker-volumes/kafka-1")
    )

The columns are those of RECORD_BATCHES. The options are:

- `path`, or the argument of load(): one log directory on file:, s3: or hdfs:.
- `topic`: regular expression for complete topic names.
- `partition`: partition number.
- `fromOffset` (inclusive), `untilOffset` (exclusive): limits of the batches' base offsets. The reader does not open
  segments outside the limits.
- `checkCrc`: true (the default) or false.
- `taskBytes`: approximate size of the segments of one task; the default is 134217728.
- `onDamage`: `fail` (the default) raises an error. `stop` returns the rows up to the damage and logs a warning.

An unknown option is an error, and so is a topic or partition that the log directory does not have.

Spark applies the filters of a query itself. With filter pushdown this source could skip segments. But Spark 4.1 reuses
the pushed filter of one query for the next query on the same DataFrame, and rows would be missing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tiersnap.jobs.pipeline.schemas import RECORD_BATCHES
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition, Segment, open_log_dir, split_folder_name
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.tables.spark_made_tables import to_batch

DEFAULT_TASK_BYTES = 128 << 20
OPTIONS = ("path", "topic", "partition", "fromOffset", "untilOffset", "checkCrc", "taskBytes", "onDamage")
_NO_LIMIT = 2**63 - 1
_LARGEST_DIGITS = 19
_MOST_NAMED = 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceFilter:
    """The part of a log directory to read."""

    topic: re.Pattern[str] | None = None  # matches complete topic names; None for all topics
    partition: int | None = None  # None for all partitions
    from_offset: int = 0  # inclusive
    until_offset: int = _NO_LIMIT  # exclusive

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceFilter:
        """Return the filter of a reader's options.

        Args:
            options: values by name in lower case.

        Raises:
            ValueError: `topic` is no regular expression, or `partition` or an offset is no number.
        """
        topic = partition = None
        if "topic" in options:
            try:
                topic = re.compile(options["topic"])
            except re.error as error:
                text = f"kafkasegment: the option topic, {options['topic']!r}, is not a regular expression: {error}"
                raise ValueError(text) from error
        if "partition" in options:
            partition = _number("partition", options["partition"])
        return cls(
            topic,
            partition,
            _number("fromOffset", options.get("fromoffset", "0")),
            _number("untilOffset", options.get("untiloffset", str(_NO_LIMIT))),
        )

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the filter selects the partition."""
        return (self.topic is None or bool(self.topic.fullmatch(topic))) and self.partition in (None, partition)

    def can_be_in(self, segment: Segment) -> bool:
        """Return whether the segment may contain a selected batch."""
        begins_early = segment.base_offset < self.until_offset
        return begins_early and (segment.next_base_offset is None or segment.next_base_offset > self.from_offset)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LARGEST_DIGITS):
        raise ValueError(f"kafkasegment: the option {name}, {text!r}, is not an integer from 0 to 2^63 - 1")
    return int(text)


def _one_of(options: Mapping[str, str], name: str, *values: str) -> str:
    """Return an option's value in lower case. If the option is not given, return the first of `values`.

    Raises:
        ValueError: the value is none of `values`.
    """
    value = options.get(name.lower(), values[0]).lower()
    if value not in values:
        raise ValueError(f"kafkasegment: the option {name} is {value!r}, but must be one of {', '.join(values)}")
    return value


@dataclass(frozen=True)
class SegmentRef:
    """A segment to decode."""

    log_dir: str
    topic: str
    partition: int
    base_offset: int
    next_base_offset: int | None  # None for the active segment
    path: str  # path of the .log file in the file system of `log_dir`
    size: int  # bytes


class SegmentTask(InputPartition):
    """The segments of one Spark task."""

    def __init__(self, segments: list[SegmentRef]) -> None:
        super().__init__(None)
        self.segments = segments


class KafkaSegmentDataSource(DataSource):
    """The Spark data source of a log directory's batch headers."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "kafkasegment"

    def schema(self) -> StructType:
        """Return the columns RECORD_BATCHES."""
        return RECORD_BATCHES

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the log directory in the option `path`.

        Raises:
            ValueError: an option is unknown or invalid, or `path` is missing.
        """
        options = {name.lower(): value for name, value in self.options.items()}
        if unknown := sorted(options.keys() - set(map(str.lower, OPTIONS))):
            raise ValueError(f"kafkasegment: unknown option {', '.join(unknown)}; the options are {', '.join(OPTIONS)}")
        if "path" not in options:
            raise ValueError("kafkasegment: no path was given; load one log directory: .load('/var/lib/kafka/data')")
        return KafkaSegmentReader(
            options["path"],
            SourceFilter.of(options),
            check_crc=_one_of(options, "checkCrc", "true", "false") == "true",
            task_bytes=_number("taskBytes", options.get("taskbytes", str(DEFAULT_TASK_BYTES))),
            stops_at_damage=_one_of(options, "onDamage", "fail", "stop") == "stop",
        )


class KafkaSegmentReader(DataSourceReader):
    """Plans tasks on the driver, and decodes segments on executors."""

    def __init__(
        self, path: str, selection: SourceFilter, *, check_crc: bool, task_bytes: int, stops_at_damage: bool = False
    ) -> None:
        self._path, self._selection, self._check_crc, self._task_bytes = path, selection, check_crc, task_bytes
        self._stops_at_damage = stops_at_damage

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks. A task has up to `taskBytes` of neighbouring segments that may contain selected batches.

        Raises:
                ValueError: the options select no partition; or a file is unreadable, and onDamage is `fail`.
        """
        tasks: list[list[SegmentRef]] = [[]]
        size = 0
        for segment in self._segments():
            if tasks[-1] and size + segment.size > self._task_bytes:
                tasks.append([])
                size = 0
            tasks[-1].append(segment)
            size += segment.size
        return list(map(SegmentTask, tasks))

    def _segments(self) -> Iterator[SegmentRef]:
        log_dir = open_log_dir(self._path)
        folders: list[str] = []
        for folder in log_dir.folders:
            topic, number = split_folder_name(folder) or ("", -1)
            if self._selection.has_partition(topic, number):
                folders.append(folder)
        if not folders:
            raise ValueError(self._nothing_selected(log_dir))
        for folder in folders:
            partition = log_dir.partition(folder)
            for finding in _unlisted(partition):
                self._tell(finding)
            for segment in partition.segments:
                if self._selection.can_be_in(segment):
                    yield SegmentRef(
                        self._path,
                        partition.topic,
                        partition.partition,
                        segment.base_offset,
                        segment.next_base_offset,
                        segment.log.path,
                        segment.log.size,
                    )

    def _nothing_selected(self, log_dir: LogDir) -> str:
        wanted: list[str] = []
        if self._selection.topic is not None:
            wanted.append(f"topic {self._selection.topic.pattern!r}")
        if self._selection.partition is not None:
            wanted.append(f"partition {self._selection.partition}")
        topics = sorted({(split_folder_name(folder) or ("", -1))[0] for folder in log_dir.folders})
        more = ""
        if len(topics) > _MOST_NAMED:
            more = f" and {len(topics) - _MOST_NAMED} more"
        return (
            f"kafkasegment: {self._path} has no {', '.join(wanted)}; it has the topics "
            f"{', '.join(topics[:_MOST_NAMED])}{more}; the option topic must match a complete name"
        )

    def _tell(self, finding: Finding) -> None:
        if not self._stops_at_damage:
            raise ValueError(
                f"kafkasegment: {finding}; to skip the rows after the damage, add .option('onDamage', 'stop')"
            )
        _log.warning("kafkasegment: %s; skipping the rows after the damage", finding)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batch headers of a task's segments.

        Raises:
            ValueError: a segment is damaged below `untilOffset`, and onDamage is `fail`.
        """
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
                offsets = rows["base_offset"]
                first, end = np.searchsorted(offsets, (self._selection.from_offset, self._selection.until_offset))
                yield to_batch(rows[first:end], identity)
            if scan.end.finding is not None and scan.end.last_offset + 1 < self._selection.until_offset:
                self._tell(scan.end.finding)


def _unlisted(partition: Partition) -> Iterator[Finding]:
    """Return the findings about a folder or .log file that cannot be read. Its rows are missing in the DataFrame."""
    return (each for each in partition.findings if each.path == partition.path or each.path.endswith(".log"))
