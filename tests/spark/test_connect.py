"""The main job, the data source and the producer state under Spark Connect, where there is no JVM handle and no RDD."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.spark.clusters import connect_server
from tests.spark.small_fleet import BASES, copies, leftovers, snapshots, write_fleet

pytestmark = pytest.mark.spark

# In a process of its own: a Python process has either a classic session or one of Connect.
PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as F
from tiersnap.jobs.pipeline.run import run
from pathlib import Path
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline import listing
from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource
from tiersnap.jobs.producer_state import snapshot_entries
from tiersnap.jobs.pipeline.listing import ListPartitions

url, source, remote, warehouse = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
settings = dict(sources=(source,), remote=remote, warehouse=warehouse, apply=True)
# As of a client that was killed: the server keeps its cache.
listed = lambda: listing.list_partitions(listing.folders(spark, [(source, "orders-0")]), ListPartitions())
left = listing.listed_segments(listed()).persist().count()
Path(source, "orders-0", f"{40:020d}.log").write_bytes(b"")
print(left, listing.listed_segments(listed()).count())
Path(source, "orders-0", f"{40:020d}.log").unlink()
first = run(spark, RunSettings(**settings))
again = run(spark, RunSettings(**settings))
spark.dataSource.register(KafkaSegmentDataSource)
batches = spark.read.format("kafkasegment").load(source)
entries = snapshot_entries(batches)
done = first.counts
print(done.segments_decoded, done.snapshots_written, done.segments_uploaded, again.did_nothing, batches.count(),
      entries.select("producer_id").distinct().count(), entries.count())
spark.stop()
"""

# The newest segment of a log goes between two decodes, as a truncation takes it.
DECODE = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tiersnap.jobs.pipeline.audit.job import AuditSettings, audit
from tiersnap.jobs.pipeline.decode_job import DecodeSettings, decode

url, source, warehouse = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
settings = dict(sources=(source,), warehouse=warehouse, apply=True)
first = decode(spark, DecodeSettings(**settings))
for each in Path(source).glob("*-0/00000000000000000030.*"):
    each.unlink()
again = decode(spark, DecodeSettings(**settings))
audits = audit(spark, AuditSettings(sources=(source,))), audit(spark, AuditSettings(warehouse=warehouse, to=warehouse))
print(first.segments, again.segments, again.stale, *(each.total for each in audits))
spark.stop()
"""


@pytest.mark.nightly
def test_a_decode_and_an_audit_run_under_connect(tmp_path: Path) -> None:
    source = write_fleet(tmp_path / "logs")
    with connect_server(tmp_path / "server") as url:
        import subprocess

        done = subprocess.run(
            [sys.executable, "-c", DECODE, url, str(source), str(tmp_path / "warehouse")],
            capture_output=True, text=True, check=False, timeout=400,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    # Producers write five of ten sequences: three gaps a partition, of which one went. And in each of the eleven
    # segments that are left two producers write the same bytes, as one does that sends a batch again under a new id.
    assert done.stdout.split() == ["12", "0", "1", "19", "19"]


def test_a_run_under_connect_leaves_what_one_host_alone_leaves(tmp_path: Path) -> None:
    source = write_fleet(tmp_path / "logs")
    remote, alone = tmp_path / "remote", tmp_path / "alone"
    with connect_server(tmp_path / "server") as url:
        import subprocess

        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, url, str(source), str(remote), str(tmp_path / "warehouse")],
            capture_output=True, text=True, check=False, timeout=400,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    closed = len(BASES) - 1
    # 7 producers: one of each partition, and one of each segment, the same in every partition.
    assert done.stdout.split() == [
        "4",
        "5",
        "12",
        str(3 * closed),
        str(3 * closed),
        "True",
        "24",
        "7",
        str(3 * (2 + 3 + 4 + 5)),
    ]
    assert tiersnap("tier", source, "--remote", alone, "--apply").exit_code == 0
    assert snapshots(remote) == snapshots(alone)
    assert copies(remote) == copies(alone) == [f"{number}/{base:020d}" for number in range(3) for base in BASES[:-1]]
    assert leftovers(remote) == []
