"""The Spark task that reads `__remote_log_metadata`.

It reads each metadata partition once, for all rows that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.read_records import with_topic_ids
from tiersnap.remote_storage.errors import MetadataTopicAbsentError
from tiersnap.remote_storage.metadata.recorded import recorded, replicas
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import LogDir, open_log_dir
from tiersnap.snapshot.replay.remote_records import PartitionRecords
from tiersnap.snapshot.rows import Int32, Rows


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """A row of WANTED: records to read from the metadata partition `number`.

    A row without `log_dir` stands for the records of one user partition, read from a cluster. A row with `log_dir`
    stands for all records in one replica of the metadata partition; `log_dir` has this replica.
    """

    number: Int32
    log_dir: str | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: Int32 | None = None


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """A row of FOUND: the records of one user partition. `folder` is `<topic>-<partition>`."""

    folder: str
    records: tuple[PartitionRecords, ...]


WANTED_ROWS, FOUND_ROWS = Rows(WantedRecords), Rows(FoundRecords)
WANTED, FOUND = WANTED_ROWS.schema, FOUND_ROWS.schema


def wanted_of_cluster(cluster: Cluster, partitions: Iterable[TopicPartition]) -> pa.RecordBatch | None:
    """Return WANTED rows for the partitions that a cluster has, or None if the cluster has no `__remote_log_metadata`.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    named = with_topic_ids(cluster, partitions)
    try:
        topic = MetadataTopic.of(cluster)
    except MetadataTopicAbsentError:
        return None
    rows = (WantedRecords(topic.partition_of(each), None, each.topic, each.topic_id, each.partition) for each in named)
    return WANTED_ROWS.batch(rows)


def wanted_of_replicas(replicas: Iterable[tuple[int, str]]) -> pa.RecordBatch | None:
    """Return WANTED rows for replicas of metadata partitions, or None without replicas.

    Args:
        replicas: pairs of a metadata partition and the URI of a log directory.
    """
    rows = [WantedRecords(*each) for each in replicas]
    if not rows:
        return None
    return WANTED_ROWS.batch(rows)


@dataclass(frozen=True)
class ReadRecords:
    """Maps the WANTED rows of one metadata partition to FOUND rows.

    If records cannot be read, the FOUND row has the error.
    """

    bootstrap_server: str | None = None  # of the cluster to ask; None to read replicas
    properties: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the records once, and yield a row for each user partition."""
        rows = list(WANTED_ROWS.read(batches))
        if rows:
            yield FOUND_ROWS.batch(FoundRecords(str(each), (records,)) for each, records in self._read(rows).items())

    def _read(self, rows: Sequence[WantedRecords]) -> dict[TopicIdPartition, PartitionRecords]:
        number = rows[0].number
        if self.bootstrap_server is None:
            return _of_replicas([each.log_dir for each in rows if each.log_dir is not None], number)
        return self._ask(self.bootstrap_server, list(map(_name_of, rows)), number)

    def _ask(
        self, server: str, named: Sequence[TopicIdPartition], number: int
    ) -> dict[TopicIdPartition, PartitionRecords]:
        try:
            with MetadataReader(Cluster(server, self.properties), {number}) as reader:
                cache = reader.read_to_end()
                is_complete = not reader.log_starts[number]
        except TiersnapError as error:
            return {each: PartitionRecords(each.topic_id or "", error=error.message) for each in named}
        return {each: recorded(cache, each, is_complete=is_complete) for each in named}


def _name_of(row: WantedRecords) -> TopicIdPartition:
    return TopicIdPartition(row.topic or "", row.topic_id, row.partition or 0)


def _of_replicas(log_dirs: Iterable[str], number: int) -> dict[TopicIdPartition, PartitionRecords]:
    """Return the records in the replicas of the metadata partition `number`."""
    caches = [each.read() for each in replicas(_opened(log_dirs), lambda found: found == number).values()]
    return {at: recorded(cache, at, is_complete=False) for cache in caches for at in cache.partitions()}


def _opened(log_dirs: Iterable[str]) -> Iterator[LogDir]:
    for each in log_dirs:
        with suppress(TiersnapError):  # the listing of partitions reports a log directory that cannot be read
            yield open_log_dir(each)
