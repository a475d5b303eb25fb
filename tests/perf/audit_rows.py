"""The audit of batch headers on Spark beside DuckDB: the same windows and sums over the same Parquet, two threads each.

DuckDB gets the one look along each producer, the sums of segments and the groups of batches that may have the same
records, which is all that a sound log asks for; ours also goes on to what the few suspects need, judges and counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.perf.make_headers import batch_rows
from tests.perf.measure import Row, interleaved, timed
from tests.perf.scale import DATA, Scale
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCHES, to_batch

_BATCHES = {"quick": 1_000_000, "default": 5_000_000, "full": 50_000_000}
_A_PARTITION = 500_000
_A_SEGMENT = 50_000
_PRODUCERS = 1_000
_SCHEMA = RECORD_BATCHES.append(pa.field("segment_size_bytes", pa.int64()))
_TIMEOUT = 7200
_KEY = "log_dir, topic, partition, producer_id"
SQL = f"""
with read as (
  select log_dir, topic, partition, segment_base_offset, base_offset, position, batch_length, segment_size_bytes,
    base_offset + last_offset_delta as last_offset, last_offset_delta + 1 as length, producer_id, producer_epoch,
    base_sequence, (base_sequence + last_offset_delta + 1) % 2147483648 as sequence_end, max_timestamp as timestamp,
    (attributes & 32) = 0 as is_of_client, (attributes & 16) <> 0 as is_transactional,
    case when (attributes & 32) <> 0 and record_count > 0 and control_type in (0, 1) then control_type end as marker,
    case when (attributes & 32) <> 0 and control_type in (0, 1) then coordinator_epoch end as coordinator_epoch,
    (attributes & 32) = 0 and producer_id >= 0 and base_sequence >= 0 as is_data,
    case when producer_id < 0 then segment_base_offset else -1 end as lane
  from read_parquet('FILES')
), seen as (
  select *,
    last_value(case when is_data then producer_epoch end ignore nulls) over before as epoch_before,
    last_value(case when is_data then sequence_end end ignore nulls) over before as expected,
    last_value(case when is_of_client or marker is not null then producer_epoch end ignore nulls) over before
      as seen_epoch,
    max(coordinator_epoch) over before as coordinated_epoch,
    last_value(case when marker is not null then false when is_transactional then true end ignore nulls) over before
      as was_open,
    last_value(case when is_of_client and timestamp >= 0 then timestamp end ignore nulls) over before as time_before,
    last_value(case when is_of_client and timestamp >= 0 then last_offset end ignore nulls) over before as timed_before
  from read
  window before as (partition by {_KEY}, lane order by base_offset rows between unbounded preceding and 1 preceding)
), along as (
  select {_KEY}, lane,
    bool_or(is_data and (base_sequence <> coalesce(expected, 0) or producer_epoch <> epoch_before
      or (not is_transactional and was_open)) or producer_epoch < seen_epoch
      or coordinator_epoch < coordinated_epoch) as is_suspect,
    max(case when is_transactional and is_of_client and not coalesce(was_open, false) then base_offset end) as opened,
    max(case when marker is not null then base_offset end) as ended,
    max(case when time_before > timestamp then time_before - timestamp end) as back,
    max(case when time_before > timestamp then timed_before end) as furthest
  from seen group by all
), sums as (
  select log_dir, topic, partition, segment_base_offset, min(base_offset) as first_offset, max(last_offset) as last,
    sum(length) as offsets, min(position) as first, max(position + 12 + batch_length) as end_position,
    max(segment_size_bytes) as size
  from read group by all
), alike as (
  select 1 from read_parquet('FILES')
  where (attributes & 32) = 0 and producer_id >= 0 and base_sequence >= 0 and record_count > 0
  group by log_dir, topic, partition, batch_length, record_count, last_offset_delta, base_timestamp,
    case when (attributes & 8) = 0 then max_timestamp end
  having min(producer_id) < max(producer_id) or min(producer_epoch) < max(producer_epoch)
)
select (select count(*) from along where is_suspect or opened > coalesce(ended, -1) or back > 0),
  (select count(*) from sums where offsets < last - first_offset + 1), (select count(*) from alike)
"""


def rows(scale: Scale) -> Iterator[Row]:
    """The whole audit against DuckDB's windows."""
    count = _BATCHES[scale.name]
    folder = made(count)
    with _Worker("ours", folder) as ours, _Worker("duckdb", folder) as peer:
        (mine, theirs) = interleaved(min(scale.repetitions, 3), timed(ours.run), timed(peer.run))
    ratio = mine / theirs
    yield Row(
        f"tiersnap audit of {count / 1e6:.0f} M batches, two cores",
        "≤ 2\N{MULTIPLICATION SIGN} of its time",
        f"{mine:.1f} s ({count / mine / 1e6:.2f} M batches/s)",
        f"{theirs:.1f} s (DuckDB, the same windows, 2 threads)",
        ratio,
        ratio <= 2,
        "the ratio is our time over DuckDB's",
    )


def made(count: int) -> Path:
    """Parquet of so many batches, a file a partition of half a million, made once."""
    folder = DATA / f"batches-{count}"
    if (folder / "_SUCCESS").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(max(1, count // _A_PARTITION)):
        batches = sound_rows(min(count, _A_PARTITION), seed=number)
        with pq.ParquetWriter(folder / f"part-{number:05d}.parquet", _SCHEMA, compression="zstd") as file:
            for start in range(0, batches.size, _A_SEGMENT):
                segment = batches[start : start + _A_SEGMENT].copy()
                segment["position"] -= segment["position"][0]
                size = int(segment["position"][-1] + segment["batch_length"][-1]) + 12
                identity = {"log_dir": "/logs", "topic": "perf", "partition": number}
                identity |= {"segment_base_offset": int(segment["base_offset"][0]), "segment_size_bytes": size}
                file.write_batch(to_batch(segment, identity, _SCHEMA))
    (folder / "_SUCCESS").touch()
    return folder


def sound_rows(count: int, *, seed: int) -> np.ndarray:
    """Headers as of `batch_rows`, but each producer's in sequence, and in transactions only right before a marker."""
    rows = batch_rows(count, _PRODUCERS, seed=seed)
    is_data = rows["control_type"] < 0
    producers = rows["producer_id"][is_data]
    order = np.argsort(producers, kind="stable")
    ordered = producers[order]
    first = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1])
    begins = np.repeat(first, np.diff(np.append(first, ordered.size)))
    sequences = np.empty(ordered.size, np.int32)
    sequences[order] = np.arange(ordered.size) - begins
    rows["base_sequence"][is_data] = sequences
    return rows


class _Worker:
    """A process that audits once a line of its input."""

    def __init__(self, kind: str, folder: Path) -> None:
        words = [sys.executable, "-m", "tests.perf.audit_rows", kind, str(folder)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_TIMEOUT)

    def run(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, "the worker ended"
        print(f"  {said.strip()}", file=sys.stderr)


def _of_spark(folder: str) -> object:
    from pyspark.sql import functions as F  # noqa: N812

    from tiersnap.jobs.pipeline.audit.audit import audit
    from tiersnap.jobs.pipeline.session import LONG_WORK, open_session

    count = int(folder.rpartition("-")[2])
    conf = {"spark.sql.shuffle.partitions": str(max(8, count // 500_000)), "spark.driver.memory": "3g"}
    spark = open_session("local[2]", conf, java_options=LONG_WORK)

    def run() -> object:
        batches = spark.read.parquet(folder)
        known = spark.range(max(1, count // _A_PARTITION)).select(
            F.lit("/logs").alias("log_dir"),
            F.lit("perf").alias("topic"),
            F.col("id").cast("int").alias("partition"),
            F.lit(0).cast("long").alias("log_start_offset"),
            F.lit(0).cast("long").alias("log_start"),
            F.lit(False).alias("is_compacted"),
            F.lit("id").alias("topic_id"),
            F.lit("cluster").alias("cluster_id"),
            F.lit(0).alias("leader_epoch"),
        )
        listed = known.select(
            "log_dir", "topic", "partition", F.lit(0).alias("base_offset"), F.lit(1).alias("size_bytes")
        )
        ids = spark.createDataFrame([], "cluster_id string, producer_id bigint, transactional_id string")
        with audit(batches, known, listed, ids, run=1, expiration=None) as audited:
            counts = audited.findings.groupBy("kind").count().collect()
        return {row.kind: row["count"] for row in counts}

    return run


def _of_duckdb(folder: str) -> object:
    import duckdb

    def run() -> object:
        with duckdb.connect(config={"threads": 2}) as connection:
            return connection.sql(SQL.replace("FILES", f"{folder}/*.parquet")).fetchall()

    return run


if __name__ == "__main__":
    work = {"ours": _of_spark, "duckdb": _of_duckdb}[sys.argv[1]](sys.argv[2])
    for _ in sys.stdin:
        started = time.perf_counter()
        found = work()  # type: ignore[operator]
        print(json.dumps({"found": found, "seconds": round(time.perf_counter() - started, 2)}), flush=True)
