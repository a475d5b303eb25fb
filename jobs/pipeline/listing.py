"""Stage 1, list: returns one row per partition folder, with the local and remote segments (schema LISTED)."""

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
from tiersnap.snapshot.exactly_once.simulate.lost_producers import lost_producers_of
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
    """Return the partition with the start of its scan window and the largest timestamps of its closed segments.

    Args:
        listed: the partition.
        filesystem: file system of the log directory.
        partition: files of the same partition.
        since: ms since the epoch. The window leaves out the segments at the start of the log whose records are all
            older than this time.
    """
    reader = snapshot_reader(filesystem, partition)
    told: list[int | None] = []
    largest: list[int | None] = []
    for segment in partition.segments:
        time = None if segment.is_active else _largest_timestamp(filesystem, segment)
        told.append(time)
        # If the time index is truncated, its last time is too early. The modification time of the file is later.
        largest.append(None if time is None else max(time, segment.log.modified_ns // 1_000_000))
    bases = [segment.base_offset for segment in partition.segments]
    found = window_offset(bases, largest, since)
    if found is not None and partition.high_watermark is not None:
        # The window must start below the high watermark, because the transactions open at the latter must be known.
        below = [base for base in bases if base <= max(partition.high_watermark, partition.log_start_offset)]
        found = min(found, below[-1]) if len(below) > 1 else None
    leader, known = listed.leader, listed.fingerprint
    if found is not None and leader is not None and leader.leader_stable_offset >= found:
        known = fingerprint(known, "nothing is open before the window")
    elif found is not None:
        # Start the window at a snapshot that shows the open transactions. Without one the replay computes no snapshot.
        proving = proving_offset([base for base in bases if base <= found], partition.snapshots, reader)
        if proving is not None:
            found = proving
    if found is not None and found <= bases[0]:
        found = None
    start = listed.start
    if start is not None and start.snapshot_offset < (found or 0):
        start = None  # a replay of the window never starts before the window
    timed = zip(listed.segments, told, strict=True)
    return replace(
        listed,
        fingerprint=known,
        segments=tuple(replace(each, largest_timestamp=time) for each, time in timed),
        window_offset=found,
        start=start,
    )


def _largest_timestamp(filesystem: FileSystem, segment: Segment) -> int | None:
    """Return the timestamp (ms) in the last entry of the segment's time index; None if no index or no time exists."""
    if segment.time_index is None:
        return None
    try:
        entries = decode_time_index(read_bounded(filesystem, segment.time_index.path), base_offset=segment.base_offset)
    except (OSError, CorruptIndexError):
        return None
    return int(entries["timestamp"][-1]) if entries.size and entries["timestamp"][-1] > 0 else None


@dataclass(frozen=True, slots=True)
class StatedFacts:
    """Facts about a partition from the command line and the cluster. The files of the partition may lack these facts.

    Attributes:
        log_start: log start offset from --log-start; None if the option does not name this partition.
        topic_id: the topic's id in the cluster, to which the leader's offsets belong; None without a cluster.
        leader_log_start: the leader's log start offset, which may be the offset of a remote segment.
        leader_stable: the leader's last stable offset; None if it was not requested. See LeaderOffsets.
        leader_high_watermark: the leader's high watermark; None without a cluster. See LeaderOffsets.
    """

    log_start: int | None = None
    topic_id: str | None = None
    leader_log_start: int | None = None
    leader_stable: int | None = None
    leader_high_watermark: int | None = None

    def located(self, partition: Partition) -> Partition:
        """Return the partition with its log start offset, from its files or else from --log-start.

        Use the leader's offset if the log start offset is still unknown. Use it too if the log starts in remote storage
        and the leader's offset is higher. If the topic ids differ, ignore the leader's offset.
        """
        stated = with_log_start(partition, self.log_start)
        return with_leaders(stated, self.leader_log_start) if self.topic_id == stated.topic_id else stated

    def leader_of(self, partition: Partition) -> LeaderOffsets | None:
        """Return the leader's offsets; None if they were not requested, or belong to a topic with another id."""
        if self.topic_id != partition.topic_id or self.leader_stable is None or self.leader_high_watermark is None:
            return None
        return LeaderOffsets(self.leader_stable, self.leader_high_watermark)


NOTHING_STATED = StatedFacts()


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """The folder of a partition in a source."""

    log_dir: str
    folder: str
    told: StatedFacts = NOTHING_STATED
    # Records of `__remote_log_metadata`, one element per topic id that the topic name had.
    records: tuple[PartitionRecords, ...] = ()

    def records_of(self, topic_id: str | None) -> PartitionRecords | None:
        """Return the partition's records for this topic id; None if no records were read."""
        return merged(each for each in self.records if each.topic_id == topic_id)


FOLDER_ROWS = Rows(SourceFolder)
FOLDERS = FOLDER_ROWS.schema


@dataclass(frozen=True)
class ListPartitions:
    """The task that lists partition folders: rows of FOLDERS to rows of LISTED.

    Attributes:
        topic_ids: topic ids by name, for topics without an id on disk.
        look: lists remote segments; None if remote storage is not read.
        since: ms since the epoch. The scan window starts at the first segment with a record of this time or later.
            None for no window.
        wants_start: whether to find a snapshot in remote storage from which a replay can start.
        living: the broker's expiration of producers, to find replicas that lost active producers; None to skip this.
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
        """Yield a row for each folder. A deleted or unreadable folder has a row with a finding."""
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
            return listed  # a collected folder contains complete decodes, so no scan is bounded
        if self.look is not None and self.living is not None and listed.remote_error is None:
            lost = lost_producers_of(self.look, source.filesystem, partition, self.living)
            listed = replace(listed, lost_producers=lost)
        if self.since is None:
            return listed
        listed = replace(listed, leader=found.told.leader_of(partition))
        return with_window(listed, source.filesystem, partition, self.since)


@dataclass(frozen=True)
class RecordsInput:
    """The partitions of `__remote_log_metadata` to read (rows of records_task.WANTED), and the task that reads them."""

    wanted: pa.RecordBatch
    task: ReadRecords


def folders(
    spark: SparkSession,
    found: Sequence[tuple[str, str]],
    *,
    told: Mapping[str, StatedFacts] = MappingProxyType({}),
    records: RecordsInput | None = None,
    per_task: int = FOLDERS_PER_TASK,
) -> DataFrame:
    """Return the folders to list (schema FOLDERS), spread over tasks.

    Each task gets neighbouring folders in order, because ListingAhead lists the objects of a topic in this order.

    The plan of each returned DataFrame is unique. With an equal plan Spark would return the cached rows of an earlier
    call, although files may have changed since.

    Args:
        spark: session.
        found: pairs of a source's URI and a folder name.
        told: facts by folder name.
        records: the partitions of `__remote_log_metadata` to read; tasks read each of them once. None for no records.
        per_task: number of folders per Spark task.
    """
    rows = (SourceFolder(*each, told.get(each[1], NOTHING_STATED)) for each in found)
    made = _of_its_own(spark, FOLDER_ROWS.batch(rows))
    if records is not None:
        read = by_key(
            _of_its_own(spark, records.wanted),
            ["number"],
            [],
            records.task,
            schemas.of_arrow(FOUND),
        )
        # If partitions were added to `__remote_log_metadata`, a partition has records in two of its partitions.
        read = read.groupBy("folder").agg(F.flatten(F.collect_list("records")).alias("read"))
        joined = made.join(read, on="folder", how="left")
        made = joined.withColumn("records", F.coalesce("read", "records")).select(*FOLDERS.names)
    task_count = max(1, -(-len(found) // per_task))
    return made.repartitionByRange(task_count, "log_dir", "folder").sortWithinPartitions("log_dir", "folder")


def _of_its_own(spark: SparkSession, rows: pa.RecordBatch) -> DataFrame:
    table = spark.createDataFrame(pa.Table.from_batches([rows]))
    return table.where(F.lit(uuid.uuid4().hex).isNotNull())


def list_partitions(
    folder_rows: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """Return the listed partitions (schema LISTED). `task` is a ListPartitions, or a task with the same schemas."""
    return folder_rows.mapInArrow(of_batches(task), schemas.LISTED)


def listed_segments(listed: DataFrame) -> DataFrame:
    """Return one row per listed segment: PARTITION_KEY, topic_id and the fields of SEGMENT_FILES."""
    return listed.select("log_dir", "topic", "partition", "topic_id", F.explode("segments").alias("segment")).select(
        "log_dir", "topic", "partition", "topic_id", "segment.*"
    )
