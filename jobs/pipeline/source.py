"""`spark.read.format("kafkasegment")`: the batch headers of log segments as a DataFrame.

    from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource

    spark.dataSource.register(KafkaSegmentDataSource)
    (
        spark.read.format("kafkasegment")
        .option("topic", "orders").option("fromOffset", 1_000_000)
        .load("s3://broker-volumes/kafka-1")
    )

Options: `path` (or load's argument), one log directory on file:, s3: or hdfs:; `topic`, a regular expression for the
whole name; `partition`, a number; `fromOffset` (inclusive) and `untilOffset` (exclusive), of the batches' base offsets:
segments that hold none are not opened; `checkCrc` (true); `taskBytes` (134217728): segments are packed into tasks of
about that size; `onDamage`, `fail` (the default) or `stop`, which gives of a damaged segment the rows up to the damage
and logs it. Columns are those of tables.RECORD_BATCHES. An option that is not among these, and a topic or partition
that the log directory does not have, are errors: no rows without a word.

Filters of a query are left to Spark. Pushed down they would select segments too, but Spark 4.1 keeps the selection that
one query made for the next one on the same DataFrame, which then lacks rows if it has no filter.
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
    """The part of a log directory that is read; `topic` matches the whole name, `until_offset` is exclusive."""

    topic: re.Pattern[str] | None = None
    partition: int | None = None
    from_offset: int = 0
    until_offset: int = _NO_LIMIT

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceFilter:
        """Return the filter of a reader's options, names in lower case; ValueError if one is not what it should be."""
        try:
            topic = re.compile(options["topic"]) if "topic" in options else None
        except re.error as error:
            raise ValueError(f"kafkasegment: topic {options['topic']!r} is no regular expression: {error}") from error
        partition = options.get("partition")
        return cls(
            topic,
            None if partition is None else _number("partition", partition),
            _number("fromOffset", options.get("fromoffset", "0")),
            _number("untilOffset", options.get("untiloffset", str(_NO_LIMIT))),
        )

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the partition is read."""
        return (self.topic is None or bool(self.topic.fullmatch(topic))) and self.partition in (None, partition)

    def can_be_in(self, segment: Segment) -> bool:
        """Return whether the segment may hold a batch that is read."""
        begins_early = segment.base_offset < self.until_offset
        return begins_early and (segment.next_base_offset is None or segment.next_base_offset > self.from_offset)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LARGEST_DIGITS):
        raise ValueError(f"kafkasegment: {name} {text!r} is no number from 0 on")
    return int(text)


def _one_of(options: Mapping[str, str], name: str, *values: str) -> str:
    """The option, one of `values`; the first of them where it is not given."""
    value = options.get(name.lower(), values[0]).lower()
    if value not in values:
        raise ValueError(f"kafkasegment: {name} {value!r} is not one of {', '.join(values)}")
    return value


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
        if unknown := sorted(options.keys() - {name.lower() for name in OPTIONS}):
            raise ValueError(f"kafkasegment: no option {', '.join(unknown)}; there are {', '.join(OPTIONS)}")
        if "path" not in options:
            raise ValueError("kafkasegment: no path; give one log directory: .load('/var/lib/kafka/data')")
        return KafkaSegmentReader(
            options["path"],
            SourceFilter.of(options),
            check_crc=_one_of(options, "checkCrc", "true", "false") == "true",
            task_bytes=_number("taskBytes", options.get("taskbytes", str(DEFAULT_TASK_BYTES))),
            stops_at_damage=_one_of(options, "onDamage", "fail", "stop") == "stop",
        )


class KafkaSegmentReader(DataSourceReader):
    """Plans tasks on the driver, decodes on executors."""

    def __init__(
        self, path: str, selection: SourceFilter, *, check_crc: bool, task_bytes: int, stops_at_damage: bool = False
    ) -> None:
        self._path, self._selection, self._check_crc, self._task_bytes = path, selection, check_crc, task_bytes
        self._stops_at_damage = stops_at_damage

    def partitions(self) -> Sequence[InputPartition]:
        """Return segments that can hold a selected row, packed by size in the order of the log.

        ValueError if nothing is selected, or rows are missing and onDamage is `fail`.
        """
        tasks: list[list[SegmentRef]] = [[]]
        size = 0
        for segment in self._segments():
            if tasks[-1] and size + segment.size > self._task_bytes:
                tasks.append([])
                size = 0
            tasks[-1].append(segment)
            size += segment.size
        return [SegmentTask(task) for task in tasks]

    def _segments(self) -> Iterator[SegmentRef]:
        log_dir = open_log_dir(self._path)
        names = {folder: split_folder_name(folder) or ("", -1) for folder in log_dir.folders}
        folders = [folder for folder, name in names.items() if self._selection.has_partition(*name)]
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
        wanted = [] if self._selection.topic is None else [f"topic {self._selection.topic.pattern!r}"]
        wanted += [] if self._selection.partition is None else [f"partition {self._selection.partition}"]
        there = sorted({(split_folder_name(folder) or ("", -1))[0] for folder in log_dir.folders})
        more = f" and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
        return (
            f"kafkasegment: {self._path} has no {', '.join(wanted)}; a topic must match as a whole, and there are "
            f"{', '.join(there[:_MOST_NAMED])}{more}"
        )

    def _tell(self, finding: Finding) -> None:
        if not self._stops_at_damage:
            raise ValueError(
                f"kafkasegment: {finding}; rows behind it would be missing: .option('onDamage', 'stop') goes without"
            )
        _log.warning("kafkasegment: %s; rows behind it are left out", finding)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode the segments of a task; ValueError for damage below the selected end if onDamage is `fail`."""
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
    """Findings of a listing that cost rows: a log file, or the folder itself, that cannot be read."""
    return (each for each in partition.findings if each.path == partition.path or each.path.endswith(".log"))
