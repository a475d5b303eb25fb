"""Stage 1, list: folders of sources -> LISTED rows, partitions with their segments and their remote segments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key, of_batches
from tiersnap.jobs.pipeline.partition_sources import LogDirSource, PartitionSource, open_source
from tiersnap.remote_storage.cluster.records_task import FOUND, ReadRecords
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.exactly_once.simulate.forgotten import told_forgotten
from tiersnap.snapshot.formats.indexes import decode_time_index
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.log_start import with_leaders, with_log_start
from tiersnap.snapshot.replay.expiry import BrokerExpiry, fingerprint
from tiersnap.snapshot.replay.partition_listing import PartitionListing, RemoteLister
from tiersnap.snapshot.replay.partition_replay import snapshot_reader
from tiersnap.snapshot.replay.remote_listing import RemoteLook
from tiersnap.snapshot.replay.remote_records import PartitionRecords, merged
from tiersnap.snapshot.replay.window_start import LeaderOffsets, proving_offset, window_offset
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.listed import LISTED_ROWS, ListedPartition

FOLDERS_PER_TASK = 200


def with_window(listed: ListedPartition, filesystem: FileSystem, partition: Partition, since: int) -> ListedPartition:
    """Return it with its `window_offset`, and what the time indexes say of its closed segments."""
    reader = snapshot_reader(filesystem, partition)
    told = [None if each.is_active else _largest_timestamp(filesystem, each) for each in partition.segments]
    # A time index that lost its end tells too early a time. Then the file's own time, if it was kept, is later.
    largest = [
        None if time is None else max(time, segment.log.modified_ns // 1_000_000)
        for time, segment in zip(told, partition.segments, strict=True)
    ]
    bases = [segment.base_offset for segment in partition.segments]
    found = window_offset(bases, largest, since)
    if found is not None and partition.high_watermark is not None:
        # What transactions are open at the high watermark must be known.
        below = [base for base in bases if base <= max(partition.high_watermark, partition.log_start_offset)]
        found = min(found, below[-1]) if len(below) > 1 else None
    leader, known = listed.leader, listed.fingerprint
    if found is not None and leader is not None and leader.leader_stable_offset >= found:
        known = fingerprint(known, "nothing is open before the window")
    elif found is not None:
        # The window follows a snapshot that shows what is open there. Without one nothing is computed.
        proving = proving_offset([base for base in bases if base <= found], partition.snapshots, reader)
        found = found if proving is None else proving
    window = found if found is None or found > bases[0] else None
    is_behind = listed.start is not None and listed.start.snapshot_offset < (window or 0)
    return replace(
        listed,
        fingerprint=known,
        segments=tuple(replace(each, largest_timestamp=time) for each, time in zip(listed.segments, told, strict=True)),
        window_offset=window,
        start=None if is_behind else listed.start,  # no replay begins there
    )


def _largest_timestamp(filesystem: FileSystem, segment: Segment) -> int | None:
    """The last entry of the segment's time index (ms), None where there is no index or no time in it."""
    if segment.time_index is None:
        return None
    try:
        entries = decode_time_index(read_bounded(filesystem, segment.time_index.path), base_offset=segment.base_offset)
    except (OSError, CorruptIndexError):
        return None
    return int(entries["timestamp"][-1]) if entries.size and entries["timestamp"][-1] > 0 else None


@dataclass(frozen=True, slots=True)
class ToldOfPartition:
    """The facts about a partition that its files may not tell.

    Attributes:
        log_start: the offset of --log-start; None if it names no offset for this partition.
        topic_id: of the topic in the cluster, whose partition the other facts are of; None without a cluster.
        leader_log_start: log start offset of its leader, remote segments included.
        leader_stable, leader_high_watermark: see LeaderOffsets; None where they are not asked for.
    """

    log_start: int | None = None
    topic_id: str | None = None
    leader_log_start: int | None = None
    leader_stable: int | None = None
    leader_high_watermark: int | None = None

    def located(self, partition: Partition) -> Partition:
        """Return the partition with its log start, if the files do not tell it, or tell an older one."""
        stated = with_log_start(partition, self.log_start)
        return with_leaders(stated, self.leader_log_start) if self.topic_id == stated.topic_id else stated

    def leader_of(self, partition: Partition) -> LeaderOffsets | None:
        """Return the offsets of the partition's leader; None if they were not asked for, or are of another topic."""
        if self.topic_id != partition.topic_id or self.leader_stable is None or self.leader_high_watermark is None:
            return None
        return LeaderOffsets(self.leader_stable, self.leader_high_watermark)


NOTHING_TOLD = ToldOfPartition()


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A partition's folder in a source."""

    log_dir: str
    folder: str
    told: ToldOfPartition = NOTHING_TOLD
    # Of `__remote_log_metadata`, also of other topics that had the name; none if no records were read.
    records: tuple[PartitionRecords, ...] = ()

    def records_of(self, topic_id: str | None) -> PartitionRecords | None:
        """Return the records of the partition; None if none were read."""
        return merged(each for each in self.records if each.topic_id == topic_id)


FOLDER_ROWS = Rows(SourceFolder)
FOLDERS = FOLDER_ROWS.schema


@dataclass(frozen=True)
class ListPartitions:
    """FOLDERS rows -> LISTED rows.

    Attributes:
        topic_ids: ids by topic, for topics that have none on disk.
        look: reads remote storage; None leaves it unread.
        since: ms; a bounded scan leaves out the segments before the first one that has a later record. None scans all.
        wants_start: ask remote storage for a state to start from, since no table has any.
        living: when brokers drop idle producers: ask which living producers a replica has forgotten. None asks nothing.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    look: RemoteLook | None = None
    since: int | None = None
    wants_start: bool = False
    living: BrokerExpiry | None = None
    _lister: RemoteLister = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lister", RemoteLister(self.look, self.wants_start))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List each folder; one that vanished or may not be read is a row with a finding."""
        opened: dict[str, PartitionSource] = {}
        for batch in batches:
            folders = FOLDER_ROWS.read([batch])
            yield LISTED_ROWS.batch(self._listed(each, opened) for each in folders)

    def _listed(self, found: SourceFolder, opened: dict[str, PartitionSource]) -> ListedPartition:
        if found.log_dir not in opened:
            opened[found.log_dir] = open_source(found.log_dir)
        source = opened[found.log_dir]
        listed, partition = source.listed(found.folder, self.topic_ids, found.told.located)
        listing = PartitionListing(source.filesystem, partition)
        listed = listed.with_remote(self._lister.with_remote(listing, found.records_of(partition.topic_id)))
        if not isinstance(source, LogDirSource):
            return listed  # what was collected is decoded already
        if self.look is not None and self.living is not None and listed.remote_error is None:
            lost = told_forgotten(self.look, source.filesystem, partition, self.living)
            listed = replace(listed, forgotten=lost)
        if self.since is None:
            return listed
        listed = replace(listed, leader=found.told.leader_of(partition))
        return with_window(listed, source.filesystem, partition, self.since)


@dataclass(frozen=True)
class RecordsInput:
    """The records that executors read: rows of records_task.WANTED, and the task."""

    wanted: pa.RecordBatch
    task: ReadRecords


def folders(
    spark: SparkSession,
    found: Sequence[tuple[str, str]],
    *,
    told: Mapping[str, ToldOfPartition] = MappingProxyType({}),
    records: RecordsInput | None = None,
    per_task: int = FOLDERS_PER_TASK,
) -> DataFrame:
    """(log directory, folder name) pairs as rows, spread over tasks, with what is told of a folder's partition.

    Spark answers a plan from the cache of an equal one, of whichever run and session of the application. Files change,
    and no plan says so; each call gives a plan that equals no other.

    Args:
        records: those that tasks read, each partition of `__remote_log_metadata` once.
    """
    rows = (SourceFolder(*each, told.get(each[1], NOTHING_TOLD)) for each in found)
    made = _of_its_own(spark, FOLDER_ROWS.batch(rows))
    if records is not None:
        read = by_key(
            _of_its_own(spark, records.wanted),
            ["number"],
            [],
            records.task,
            schemas.of_arrow(FOUND),
        )
        # A partition whose number of metadata partitions was raised has records in two of them.
        read = read.groupBy("folder").agg(F.flatten(F.collect_list("records")).alias("read"))
        joined = made.join(read, on="folder", how="left")
        made = joined.withColumn("records", F.coalesce("read", "records")).select(*FOLDERS.names)
    return made.repartition(max(1, -(-len(found) // per_task)), "log_dir", "folder")


def _of_its_own(spark: SparkSession, rows: pa.RecordBatch) -> DataFrame:
    table = spark.createDataFrame(pa.Table.from_batches([rows]))
    return table.where(F.lit(uuid.uuid4().hex).isNotNull())


def list_partitions(
    folder_rows: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """FOLDERS -> LISTED, by ListPartitions or another of its kind, as the folders are now."""
    return folder_rows.mapInArrow(of_batches(task), schemas.LISTED)


def listed_segments(listed: DataFrame) -> DataFrame:
    """One row a listed segment: log_dir, topic, partition, topic_id and the fields of SEGMENT_FILES."""
    return listed.select("log_dir", "topic", "partition", "topic_id", F.explode("segments").alias("segment")).select(
        "log_dir", "topic", "partition", "topic_id", "segment.*"
    )
