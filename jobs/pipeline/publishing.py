"""Stage 7, publish: brokers are told of segments in remote storage that they do not know, and the table says so."""

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
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentId, TopicIdPartition
from tiersnap.remote_storage.publish.publish import Published
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY

pc: Any = pyarrow.compute  # its stubs take no plain value beside a column
_UPLOADED = str(Verdict.UPLOADED)


def publish(run: RunContext, groups: pa.Table, listed: DataFrame) -> Published:
    """Tell brokers of the UPLOADED segments, and remember it.

    A bounded scan does not see what lies before its window. So segments are compared with the log before they are
    published, also those that it uploaded. Topics of the sources that a killed run left paused are resumed.

    Args:
        groups: counts of segments by partition and verdict.
        listed: LISTED rows of the partitions that count.
    """
    given = run.given
    assert given.teller is not None
    table, names = run.warehouse.read("remote_log_segments"), groups.filter(pc.equal(groups["verdict"], _UPLOADED))
    if not names.num_rows:
        return given.teller.run((), given.topics, ())
    rows = _waiting(listed, run.spark.createDataFrame(names.select(PARTITION_KEY)))
    partitions = [TopicIdPartition(each.topic, each.topic_id, each.partition) for each in rows]
    leading = {(each.topic, each.partition): each.log_dir for each in rows}
    uploaded = frozenset[str]() if run.is_bounded else _uploaded(table, run.number)
    done = given.teller.run(partitions, given.topics, uploaded, leading)
    if done.records:
        run.append("remote_log_segments", _told_rows(table, done.told, run.number))
    return done


def without_refused(run: RunContext, names: pa.Table, listed: DataFrame) -> pa.Table:
    """Return the partitions whose segments the cluster can take, all without one; a refusal is an error of the run.

    Args:
        names: PARTITION_KEY of partitions with segments to upload.
        listed: LISTED rows of the partitions that count.
    """
    teller, outcome = run.given.teller, run.outcome
    if teller is None or not names.num_rows:
        return names
    rows = _waiting(listed, run.spark.createDataFrame(names))
    refusal_of = teller.refusals({each.topic for each in rows})
    found = [(each, refusal_of(TopicIdPartition(each.topic, each.topic_id, each.partition))) for each in rows]
    refusals = [refusal for _, refusal in found if refusal is not None]
    counts.add_errors(outcome, refusals)
    taken = [{name: each[name] for name in PARTITION_KEY} for each, refusal in found if refusal is None]
    return pa.Table.from_pylist(taken, names.schema)


def _waiting(listed: DataFrame, groups: DataFrame) -> list[Row]:
    """Return log_dir, topic, topic_id and partition of listed partitions among the groups of verdicts.

    The driver publishes them, so it holds their names, as it holds those of all folders.
    """
    names = listed.select(*PARTITION_KEY, "topic_id")
    return names.join(groups.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi").collect()


def _uploaded(remote_log_segments: DataFrame, run: int) -> frozenset[str]:
    """Return the ids of segments whose bytes run number `run` sent, and compared with the log on their way."""
    is_finished = F.col("is_ours") & (F.col("state") == COPY_FINISHED)
    sent = remote_log_segments.where((F.col("run") == run) & is_finished & (F.col("object_bytes") > 0))
    return frozenset(row.segment_id for row in sent.select("segment_id").collect())


def _told_rows(remote_log_segments: DataFrame, told: Iterable[RemoteLogSegmentId], run: int) -> DataFrame:
    """Return the rows that say that records name these segments; their newest rows, as of run number `run`."""
    ids = remote_log_segments.sparkSession.createDataFrame([(each.segment_id,) for each in told], "segment_id string")
    known = current(remote_log_segments).join(ids, on="segment_id", how="left_semi")
    changed = known.withColumns({"is_published": F.lit(True), "run": F.lit(run).cast("long")})
    return changed.select(*remote_log_segments.columns)
