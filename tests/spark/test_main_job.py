"""`tiersnap run` on a real Spark session and a real HTTP S3: exact, complete, and never twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.all_logs import assemble
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.recovered import DATA
from tests.reference.schemas import assert_follows_schema
from tests.spark.conftest import Remote
from tiersnap.jobs.main import run as tiersnap
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.errors import CorruptDataError, ExitCode
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.spark

AS_OF = ["--as-of", "2026-11-21T12:45:00Z"]
OTHER_ID = "5GXaOJXiRzOuReKRIUWzvw"
TOPIC_IDS = {"orders": "lZ6vvmajTWKDBUTV6SQAtQ", "payments": OTHER_ID}


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """`tiersnap run` takes the session that is there."""
    return spark


def run(source: Path, remote: Remote, warehouse: Path, *options: str, report: str = "report") -> int:
    out = warehouse.parent / report
    places = ["--source", str(source), *remote.options, "--warehouse", str(warehouse), "--report", str(out)]
    return tiersnap(["-q", "run", *places, *AS_OF, *options])


def versions(warehouse: Path) -> dict[str, int]:
    tables = (log.parent for log in warehouse.glob("*/_delta_log"))
    return {table.name: DeltaTable(str(table)).version() for table in tables}


def verdicts(report: Path) -> dict[str, int]:
    """Segments by verdict, as the report's file has them."""
    counts = json.loads((report / "readiness.json").read_text())["cluster"]["verdicts"]
    return {verdict: found["segments"] for verdict, found in counts.items()}


def test_every_boundary_written_to_s3_equals_what_kafkas_own_classes_fold(
    remote: Remote, warehouse: Path, tmp_path: Path
) -> None:
    expected = assemble(tmp_path / "logs")
    assert len(expected) == 119
    code = run(tmp_path / "logs", remote, warehouse, "--apply", "--all", "--expiration", "none")
    assert code == 4, "topics of 2.7.2 have no id, so nothing of them is tiered"
    observed = {}
    for key in remote.objects():
        parsed = keys.parse(key)
        if parsed.kind is KeyKind.SNAPSHOT:
            folder = f"{parsed.partition.topic}-{parsed.partition.partition}"
            observed[folder, parsed.offset] = snapshot_file.decode(remote.store.get(key))
    assert expected.keys() <= observed.keys()
    for boundary, path in expected.items():
        assert observed[boundary].tolist() == snapshot_file.decode(path.read_bytes()).tolist(), boundary


@pytest.mark.nightly
def test_nothing_is_tiered_of_a_partition_whose_cluster_record_is_damaged(
    remote: Remote, warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10)}
    for topic in ("orders", "payments"):
        write_partition(tmp_path / "logs", topic, 0, segments, topic_id=TOPIC_IDS[topic], high_watermark=20)
    (tmp_path / "logs/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=EArE95XTQEqfBLWnpGnLIQ\n")
    record = keys.cluster(TopicIdPartition("orders", TOPIC_IDS["orders"], 0))
    remote.store.put_if_absent(record, b"{")
    for _ in range(2):  # the second finds nothing else to do
        assert run(tmp_path / "logs", remote, warehouse, "--apply") == ExitCode.DATA_CORRUPT
        assert "failed: orders-0 10: " in (said := capsys.readouterr().err)
        assert "not the name of a cluster" in said
        assert "move the object away" in said
        logs = [key for key in map(keys.recognise, remote.objects()) if key and key.kind is KeyKind.LOG]
        assert [key.partition.topic for key in logs] == ["payments"]
    remote.store.delete([record])
    assert run(tmp_path / "logs", remote, warehouse, "--apply") == ExitCode.OK
    assert verdicts(tmp_path / "report") == {"ACTIVE_SEGMENT": 2, "UPLOADED": 2}


def test_a_second_run_writes_no_object_commits_no_version_and_says_so(
    remote: Remote,
    warehouse: Path,
    session: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = DATA / "kafka-3.9.1/logs"
    assert run(source, remote, warehouse, "--apply") == 0
    objects, before = remote.objects(), versions(warehouse)
    assert any(key.endswith(".rsm-manifest") for key in objects)
    capsys.readouterr()
    # One directory has one name, however it is spelled.
    monkeypatch.chdir(source)
    assert tiersnap(["run", "--source", "./../logs/", *remote.options, "--warehouse", f"{warehouse}/", *AS_OF,
                     "--report", str(warehouse.parent / "again"), "--apply"]) == 0  # fmt: skip
    assert remote.objects() == objects
    assert versions(warehouse) == before
    assert "no object was written, and no Delta table changed" in capsys.readouterr().err

    # What it left are Delta tables for whoever reads them, with a JVM and without.
    states = session.read.format("delta").load(str(warehouse / "remote_log_segments"))
    per_segment = {row.segment_id: row.states for row in states.groupBy("segment_id").agg(
        {"state": "collect_list"}).withColumnRenamed("collect_list(state)", "states").collect()}  # fmt: skip
    assert per_segment
    assert all(sorted(each) == ["COPY_SEGMENT_FINISHED", "COPY_SEGMENT_STARTED"] for each in per_segment.values())
    (ran,) = DeltaTable(str(warehouse / "runs")).to_pyarrow_table().to_pylist()
    assert (ran["segments_uploaded"], ran["errors"]) == (len(per_segment), 0)
    shown = ["--warehouse", str(warehouse), "--by", "segment", "--to", str(warehouse.parent / "shown")]
    assert tiersnap(["--output", "json", "report", *shown]) == 0
    assert verdicts(warehouse.parent / "shown") == verdicts(warehouse.parent / "again")


def test_without_upload_nothing_reaches_remote_storage_and_no_payload_byte_a_table(
    remote: Remote, warehouse: Path, tmp_path: Path
) -> None:
    source = tmp_path / "logs"
    folder = source / "secret-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(data_batch(0, 3, 1, 0, 0, payload=b"the-customer-s-name"))
    (folder / f"{3:020d}.log").write_bytes(data_batch(3, 3, 1, 0, 3, payload=b"the-customer-s-name"))
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}\n")
    (source / "replication-offset-checkpoint").write_text("0\n1\nsecret 0 6\n")
    assert run(source, remote, warehouse, "--apply", "--no-upload") == 0
    assert remote.objects() == {}
    files = [path for path in warehouse.rglob("*") if path.is_file()]
    assert sum(pq.read_table(path).num_rows for path in files if path.suffix == ".parquet") > 4
    assert not any(b"the-customer-s-name" in path.read_bytes() for path in files)


@pytest.mark.nightly
def test_what_was_planned_first_is_written_when_applied_and_is_what_a_host_writes(
    remote: Remote, warehouse: Path, tmp_path: Path
) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text(f"ledger {OTHER_ID}\n")
    ledger = ["--topic", "ledger", "--topic-ids", str(ids)]
    source = DATA / "ledger-2.7.2/logs"
    assert run(source, remote, warehouse, *ledger) == 0
    assert verdicts(tmp_path / "report")["MISSING_SNAPSHOT"] == 2
    assert run(source, remote, warehouse, *ledger, "--apply") == 0
    tiered = {"UPLOADED": 12, "ACTIVE_SEGMENT": 2}
    assert verdicts(tmp_path / "report") == tiered
    objects = {key: remote.store.get(key) for key in remote.objects()}
    assert sum(key.endswith(".rsm-manifest") for key in objects) == 12

    target = tmp_path / "target"
    words = ["--remote", str(target), *AS_OF, *ledger, "--report", str(tmp_path / "host"), "--apply"]
    assert tiersnap(["-q", "tier", str(source), *words]) == 0
    assert verdicts(tmp_path / "host") == tiered
    on_disk = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*.snapshot")}
    assert {key: data for key, data in objects.items() if key.endswith(".snapshot")} == on_disk
    assert len(on_disk) == 8


@pytest.mark.nightly
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
    said = capsys.readouterr().out
    assert_follows_schema(said, "json")
    result = json.loads(said)["result"]
    assert (result["segments_decoded"], result["segments_uploaded"]) == (1, 1)
    new = [keys.parse(key) for key in set(remote.objects()) - before]
    assert {key.offset for key in new} == {519}
    assert {key.kind for key in new} == {KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST, KeyKind.CLAIM}


def write(source: Path, topic: str, topic_id: str, *bases: int) -> None:
    segments = {base: [data_batch(base, 5, 1, 0, base)] for base in bases}
    write_partition(source, topic, 0, segments, topic_id=topic_id, high_watermark=bases[-1] + 5, indexes=True)


def killed_after(writes: int) -> object:
    """A lease in place of one_writer.only_run that is lost after so many writes below the warehouse."""
    left = [writes]

    def check() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise LeaseLostError("another run has taken over the lock of this warehouse")

    @contextmanager
    def lost(*_: object, **__: object) -> Iterator[object]:
        yield check

    return lost


@pytest.mark.nightly
def test_each_run_counts_its_own_work_and_a_table_that_cannot_be_read_is_named(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that lists other partitions than the run before it, which was killed before it was recorded."""
    logs, warehouse = tmp_path / "logs", tmp_path / "warehouse"
    write(logs, "orders", "lZ6vvmajTWKDBUTV6SQAtQ", 0, 5, 10)
    write(logs, "payments", OTHER_ID, 0, 5)

    said: list[str] = []

    def run_topic(topic: str) -> RunOutcome:
        places = (str(logs),), str(tmp_path / "remote"), str(warehouse)
        settings = RunSettings(*places, topic=topic, apply=True, run_id=f"of-{topic}")
        return run_job(session, settings, talk=said.append)

    with monkeypatch.context() as patched:
        patched.setattr("tiersnap.jobs.pipeline.run.only_run", killed_after(6))
        with pytest.raises(LeaseLostError):
            run_topic("orders")
    assert {table.name for table in warehouse.iterdir()} == {
        *("segments", "partitions", "remote_log_segments", "scratch")
    }
    counts = run_topic("payments").counts
    assert (
        "run of-orders failed or was killed before it wrote its row into the table runs; the row is added now" in said
    )
    assert (counts.snapshots_written, counts.segments_uploaded) == (1, 1)
    first, second = sorted(DeltaTable(str(warehouse / "runs")).to_pyarrow_table().to_pylist(), key=itemgetter("run"))
    names = ("run_id", "segments_decoded", "partitions_replayed", "snapshots_written", "segments_uploaded", "errors")
    assert [first[name] for name in names] == ["of-orders", 3, 1, 2, 2, 0]
    assert [second[name] for name in names] == ["of-payments", 2, 1, 1, 1, 0]
    assert first["bytes_decoded"] > 0
    assert first["started_at"] <= first["finished_at"] < second["finished_at"]
    assert json.loads(first["settings"])["recorded_by"] == "of-payments"

    for path in (warehouse / "segments" / "_delta_log").glob("*.json"):
        path.write_text("{nonsense")
    for path in (warehouse / "segments" / "_delta_log").glob("*.crc"):
        path.unlink()
    with pytest.raises(CorruptDataError, match="segments: the file is not readable as part of a Delta table"):
        run_topic("orders")


@pytest.mark.nightly
def test_a_checkpoint_that_contradicts_the_batches_is_damage_and_its_way_on_is_said(
    remote: Remote, warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = {base: [data_batch(base, 5, 7, 0, base, leader_epoch=base // 5)] for base in (0, 5, 10)}
    logs, marks = tmp_path / "logs", {"high_watermark": 15, "leader_epochs": [(0, 0)], "indexes": True}
    write_partition(logs, "orders", 0, segments, topic_id=OTHER_ID, **marks)
    assert run(logs, remote, warehouse, "--apply") == ExitCode.DATA_CORRUPT
    said = capsys.readouterr().err
    assert "the batch at offset 5 has leader epoch 1" in said
    assert "copy leader-epoch-checkpoint from a replica with the same log" in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--remote", "s3://no-such-bucket-here/x"], 2, "no-such-bucket-here"),
        (["--remote", "ftp://host/x"], 2, "tiersnap supports no store with the scheme ftp://"),
        (["--topic", "nobody"], 2, "--topic matches no partition"),
        (["--spark-conf", "spark.foo"], 2, "expected NAME=VALUE"),
        (["--topic-ids", "/no/such/file"], 2, "/no/such/file"),
        (["--expiration", "soon"], 2, "not a duration"),
        (["--source", "COPY"], 2, "in more than one source, such as"),
    ],
)
def test_a_wrong_argument_says_what_is_wrong(
    options: list[str],
    code: int,
    said: str,
    remote: Remote,
    warehouse: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "COPY" in options:
        options = ["--source", str(shutil.copytree(DATA / "ledger-2.7.2/logs", tmp_path / "copy"))]
    observed = run(DATA / "ledger-2.7.2/logs", remote, warehouse, "--apply", *options)
    captured = capsys.readouterr()
    assert said in captured.err + captured.out
    assert observed == code


@pytest.mark.nightly
def test_run_ends_with_0_when_a_broker_holds_no_partition_yet(remote: Remote, warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    shutil.copy(DATA / "kafka-3.9.1/logs/meta.properties", tmp_path / "logs")
    assert run(tmp_path / "logs", remote, warehouse, "--apply") == 0


@pytest.mark.nightly
def test_only_empty_partitions_are_a_wrong_path(
    remote: Remote, warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs" / "orders-0").mkdir(parents=True)
    assert run(tmp_path / "logs", remote, warehouse) == 2
    assert "no partition has a segment" in capsys.readouterr().err
