"""Stage 7, publish: writes records of UPLOADED segments to `__remote_log_metadata`, and marks them as published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import counts
from tiersnap.jobs.pipeline.remote_states import current
from tiersnap.jobs.pipeline.run_context import RunContext
from tiersnap.remote_storage.cluster.topic_checks import ClusterTopics
from tiersnap.remote_storage.errors import ClusterRefusedError, UnknownTopicError
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentId, TopicIdPartition
from tiersnap.remote_storage.publish.publish import Published
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

pc: Any = pyarrow.compute  # the stubs reject a comparison of a column with a plain value
_UPLOADED = str(Verdict.UPLOADED)


def publish(run: RunContext, groups: pa.Table, listed: DataFrame) -> Published:
    """Publish the UPLOADED segments, and append the published rows to `remote_log_segments`.

    Segments that earlier runs uploaded are compared with the log before they are published. After a scan with a window,
    the segments of this run are compared too, because the run did not read the log before the window. If a killed run
    left the copying of a topic paused, copying is resumed.

    Args:
        run: the run.
        groups: counts of segments by partition and verdict.
        listed: the listed partitions (schema LISTED), one replica each.
    """
    given = run.given
    assert given.publisher is not None
    table, names = run.warehouse.read("remote_log_segments"), groups.filter(pc.equal(groups["verdict"], _UPLOADED))
    if not names.num_rows:
        return given.publisher.run((), given.topics, ())
    rows = _waiting(listed, run.spark.createDataFrame(names.select(PARTITION_KEY)))
    partitions = [TopicIdPartition(each.topic, each.topic_id, each.partition) for each in rows]
    leading = {(each.topic, each.partition): each.log_dir for each in rows}
    uploaded = frozenset[str]() if run.is_bounded else _uploaded(table, run.number)
    done = given.publisher.run(partitions, given.topics, uploaded, leading)
    if done.records:
        run.append("remote_log_segments", _published_rows(table, done.segment_ids, run.number))
    return done


def without_refused(run: RunContext, names: pa.Table, listed: DataFrame) -> pa.Table:
    """Return the partitions for which the cluster accepts segments; all partitions if the run has no cluster.

    Each refusal is added to the run's errors.

    Args:
        run: the run.
        names: PARTITION_KEY of partitions with segments to upload.
        listed: the listed partitions (schema LISTED), one replica each.
    """
    cluster = run.given.cluster_of_uploads
    if cluster is None or not names.num_rows:
        return names
    rows = _waiting(listed, run.spark.createDataFrame(names))
    topics = ClusterTopics.ask(cluster, (each.topic for each in rows))
    taken: list[dict[str, object]] = []
    refused: list[TiersnapError] = []
    for each in rows:
        try:
            topics.check(TopicIdPartition(each.topic, each.topic_id, each.partition))
        except (UnknownTopicError, ClusterRefusedError) as refusal:
            refused.append(refusal)
        else:
            taken.append({name: each[name] for name in PARTITION_KEY})
    counts.add_errors(run.outcome, refused)
    return pa.Table.from_pylist(taken, names.schema)


def _waiting(listed: DataFrame, groups: DataFrame) -> list[Row]:
    """Return log_dir, topic, topic_id and partition of the listed partitions that are in `groups`.

    The driver collects one small row per partition, because it publishes the segments itself.
    """
    names = listed.select(*PARTITION_KEY, "topic_id")
    return names.join(groups.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi").collect()


def _uploaded(remote_log_segments: DataFrame, run: int) -> frozenset[str]:
    """Return the ids of the segments that the run `run` uploaded. The upload compared the bytes with the log."""
    is_finished = F.col("is_ours") & (F.col("state") == COPY_FINISHED)
    sent = remote_log_segments.where((F.col("run") == run) & is_finished & (F.col("object_bytes") > 0))
    return frozenset(row.segment_id for row in sent.select("segment_id").collect())


def _published_rows(remote_log_segments: DataFrame, told: Iterable[RemoteLogSegmentId], run: int) -> DataFrame:
    """Return the newest row of each published segment, with `is_published` true and the number of this run."""
    ids = remote_log_segments.sparkSession.createDataFrame([(each.segment_id,) for each in told], "segment_id string")
    known = current(remote_log_segments).join(ids, on="segment_id", how="left_semi")
    changed = known.withColumns({"is_published": F.lit(True), "run": F.lit(run).cast("long")})
    return changed.select(*remote_log_segments.columns)
