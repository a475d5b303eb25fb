"""Stage 7, publish: the partitions with uploaded segments that brokers may not know, and those segments' ids."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.publish.publish import Published
from tiersnap.remote_storage.publish.tell_brokers import TellBrokers
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED, TOPIC_PARTITION
from tiersnap.snapshot.tables.schemas import PARTITION_KEY


def _finished_in(remote_log_segments: DataFrame, run: int) -> DataFrame:
    return remote_log_segments.where((F.col("run") == run) & F.col("is_ours") & (F.col("state") == COPY_FINISHED))


def _waiting(remote_log_segments: DataFrame, listed: DataFrame, run: int) -> list[Row]:
    """Return log_dir, topic, topic_id and partition of listed partitions of which run number `run` uploaded segments.

    The driver publishes them, so it holds their names, as it holds those of all folders.
    """
    partitions = _finished_in(remote_log_segments, run).select(*TOPIC_PARTITION).distinct()
    names = listed.select(*PARTITION_KEY, "topic_id")
    return names.join(partitions, on=list(TOPIC_PARTITION), how="left_semi").collect()


def _uploaded(remote_log_segments: DataFrame, run: int) -> frozenset[str]:
    """Return the ids of segments whose bytes run number `run` sent, and compared with the log on their way."""
    sent = _finished_in(remote_log_segments, run).where("object_bytes > 0").select("segment_id")
    return frozenset(row.segment_id for row in sent.collect())


def publish(
    teller: TellBrokers, remote_log_segments: DataFrame | None, listed: DataFrame, run: int, topics: Iterable[str]
) -> Published:
    """Tell brokers of the segments that run number `run` uploaded.

    Args:
        remote_log_segments: the table; None if the run uploaded nothing.
        topics: names of all topics of the sources: those that a killed run left paused are resumed.
    """
    if remote_log_segments is None:
        return teller.run((), topics, ())
    rows = _waiting(remote_log_segments, listed, run)
    partitions = [TopicIdPartition(each.topic, each.topic_id, each.partition) for each in rows]
    leading = {(each.topic, each.partition): each.log_dir for each in rows}
    return teller.run(partitions, topics, _uploaded(remote_log_segments, run), leading)
