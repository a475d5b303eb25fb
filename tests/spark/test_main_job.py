"""`tiersnap run` on a real Spark session and a real HTTP S3: exact, complete, and never twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.log_builder import data_batch
from tests.reference.recovered import DATA
from tests.spark.conftest import Remote
from tiersnap.jobs.cli import run as tiersnap
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.spark

AS_OF = ["--as-of", "2026-11-21T12:45:00Z"]
LOGS = ("kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1", "ledger-2.7.2")


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """`tiersnap run` takes the session that is there."""
    return spark


def run(source: Path, remote: Remote, warehouse: Path, *options: str, report: str = "report") -> int:
    out = warehouse.parent / report
    places = ["--source", str(source), *remote.options, "--warehouse", str(warehouse), "--report", str(out)]
    return tiersnap(["-q", "run", *places, *AS_OF, *options])


def versions(warehouse: Path) -> dict[str, int]:
    return {table.name: DeltaTable(str(table)).version() for table in warehouse.iterdir()}


@pytest.mark.parametrize("log", LOGS)
def test_every_boundary_written_to_s3_equals_what_kafkas_own_classes_fold(
    log: str, remote: Remote, warehouse: Path
) -> None:
    assert run(DATA / log / "logs", remote, warehouse, "--apply", "--all", "--expiration", "none") == 0
    expected = {
        (path.parent.name, int(path.name[:20])): snapshot_file.decode(path.read_bytes())
        for path in (DATA / log / "expected").glob("*/*.snapshot")
    }
    # Keys name topics by id: <topic>-<id>/<partition>, or <topic>-no-topic-id/<partition>.
    observed = {}
    for key in remote.objects():
        if key.endswith(".snapshot"):
            _, folder, partition, name = key.split("/")
            topic = folder.removesuffix("-no-topic-id") if folder.endswith("-no-topic-id") else folder[:-23]
            observed[f"{topic}-{partition}", int(name[:20])] = snapshot_file.decode(remote.store.get(key))
    assert expected.keys() <= observed.keys()
    for boundary, entries in expected.items():
        assert observed[boundary].tolist() == entries.tolist(), boundary


def test_a_second_run_writes_no_object_commits_no_version_and_says_so(
    remote: Remote, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = DATA / "kafka-3.9.1/logs"
    assert run(source, remote, warehouse, "--apply") == 0
    objects, before = remote.objects(), versions(warehouse)
    assert any(key.endswith(".rsm-manifest") for key in objects)
    capsys.readouterr()
    assert tiersnap(["run", "--source", str(source), *remote.options, "--warehouse", str(warehouse), *AS_OF,
                     "--report", str(warehouse.parent / "again"), "--apply"]) == 0  # fmt: skip
    assert remote.objects() == objects
    assert versions(warehouse) == before
    assert "nothing to do: no object was written and no Delta version committed" in capsys.readouterr().err


def test_without_apply_nothing_reaches_remote_storage(remote: Remote, warehouse: Path) -> None:
    assert run(DATA / "ledger-2.7.2/logs", remote, warehouse) == 0
    assert remote.objects() == {}


def test_what_was_planned_first_is_written_when_applied(remote: Remote, warehouse: Path, tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("ledger 5GXaOJXiRzOuReKRIUWzvw\n")
    ledger = ["--topic", "ledger", "--topic-ids", str(ids)]
    source = DATA / "ledger-2.7.2/logs"
    assert run(source, remote, warehouse, *ledger) == 0
    assert verdicts(warehouse)["MISSING_SNAPSHOT"] == 2
    assert run(source, remote, warehouse, *ledger, "--apply") == 0
    assert verdicts(warehouse) == {"ALREADY_TIERED": 12, "ACTIVE_SEGMENT": 2}
    assert sum(key.endswith(".snapshot") for key in remote.objects()) == 8
    assert sum(key.endswith(".rsm-manifest") for key in remote.objects()) == 12


def verdicts(warehouse: Path) -> dict[str, int]:
    rows = DeltaTable(str(warehouse / "readiness")).to_pyarrow_table()["verdict"].to_pylist()
    return {verdict: rows.count(verdict) for verdict in set(rows)}


def test_after_one_new_segment_only_that_one_is_decoded(
    remote: Remote, warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "logs"
    shutil.copytree(DATA / "kafka-3.9.1/logs", source)
    assert run(source, remote, warehouse, "--apply", report="first") == 0
    before = set(remote.objects())
    partition = source / "orders-0"
    (partition / f"{745:020d}.log").write_bytes(data_batch(745, 5, timestamp=1795264900000))
    for suffix in ("index", "timeindex"):
        (partition / f"{745:020d}.{suffix}").write_bytes(b"")
    watermarks = source / "replication-offset-checkpoint"
    watermarks.write_text(watermarks.read_text().replace("orders 0 745", "orders 0 750"))
    capsys.readouterr()
    assert tiersnap(["--output", "json", "run", "--source", str(source), *remote.options, "--apply", *AS_OF,
                     "--warehouse", str(warehouse), "--report", str(tmp_path / "second")]) == 0  # fmt: skip
    result = json.loads(capsys.readouterr().out)["result"]
    assert (result["segments_decoded"], result["segments_tiered"]) == (1, 1)
    new = set(remote.objects()) - before
    assert {key.split("/")[-1][:20] for key in new} == {f"{519:020d}"}


def test_the_tables_are_delta_tables_that_delta_spark_reads(
    remote: Remote, warehouse: Path, session: SparkSession
) -> None:
    assert run(DATA / "kafka-4.1.1/logs", remote, warehouse, "--apply") == 0
    batches = session.read.format("delta").load(str(warehouse / "record_batches"))
    segments = session.read.format("delta").load(str(warehouse / "segments"))
    assert batches.count() == segments.agg({"batch_count": "sum"}).collect()[0][0]
    aborted = batches.where("topic = 'payments' and control_type = 0").count()
    assert aborted > 0
    states = session.read.format("delta").load(str(warehouse / "remote_log_segments"))
    per_segment = {row.segment_id: row.states for row in states.groupBy("segment_id").agg(
        {"state": "collect_list"}).withColumnRenamed("collect_list(state)", "states").collect()}  # fmt: skip
    assert per_segment
    assert all(sorted(each) == ["COPY_SEGMENT_FINISHED", "COPY_SEGMENT_STARTED"] for each in per_segment.values())


def test_no_payload_byte_reaches_a_table(remote: Remote, warehouse: Path, tmp_path: Path) -> None:
    source = tmp_path / "logs"
    folder = source / "secret-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(data_batch(0, 3, 1, 0, 0, payload=b"the-customer-s-name"))
    assert run(source, remote, warehouse) == 0
    files = [path for path in warehouse.rglob("*") if path.is_file()]
    assert any(pq.read_table(path).num_rows for path in files if path.suffix == ".parquet")
    assert not any(b"the-customer-s-name" in path.read_bytes() for path in files)


def test_the_local_engine_leaves_the_same_objects_and_the_same_verdicts(
    remote: Remote, warehouse: Path, tmp_path: Path
) -> None:
    source = DATA / "kafka-2.7.2/logs"
    assert run(source, remote, warehouse, "--apply", "--all") == 0
    local = tmp_path / "local"
    target = tmp_path / "remote"
    assert tiersnap(["-q", "run", "--engine", "local", "--source", str(source), "--remote", str(target), *AS_OF,
                     "--warehouse", str(local), "--report", str(tmp_path / "r"), "--apply", "--all"]) == 0  # fmt: skip
    on_s3 = {key: remote.store.get(key) for key in remote.objects() if key.endswith(".snapshot")}
    on_disk = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*.snapshot")}
    assert on_s3 == on_disk
    assert verdicts(local) == verdicts(warehouse)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--remote", "s3://no-such-bucket-here/x"], 2, "no-such-bucket-here"),
        (["--remote", "ftp://host/x"], 2, "no store has the scheme ftp://"),
        (["--topic", "nobody"], 2, "no partition matches --topic"),
        (["--spark-conf", "spark.foo"], 2, "expected NAME=VALUE"),
        (["--topic-ids", "/no/such/file"], 2, "/no/such/file"),
        (["--expiration", "soon"], 2, "not a duration"),
    ],
)
def test_a_wrong_argument_says_what_is_wrong(
    options: list[str], code: int, said: str, remote: Remote, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    observed = run(DATA / "ledger-2.7.2/logs", remote, warehouse, "--apply", *options)
    captured = capsys.readouterr()
    assert said in captured.err + captured.out
    assert observed == code
