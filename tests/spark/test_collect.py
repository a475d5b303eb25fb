"""A run on what was collected beside a run on the log directory itself, and `tiersnap decode`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.all_logs import assemble
from tests.reference.log_builder import data_batch
from tests.reference.recovered import DATA
from tests.reference.schemas import assert_follows_schema
from tests.reference.snapshot_entries import kafkas_entries
from tests.spark.conftest import Remote
from tests.spark.small_fleet import write_fleet
from tiersnap.jobs.main import run as tiersnap
from tiersnap.jobs.pipeline.collected_headers import collected_batches
from tiersnap.jobs.pipeline.newest import newest
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.producer_state import snapshot_entries
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

NOW = 1_795_266_000_000  # 2026-11-21T13:00:00Z


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """Commands take the session that is there."""
    return spark


def settings(source: Path | str, work: Path, **options: Any) -> RunSettings:
    replay = ReplayOptions(expiration=None, every_boundary=True)
    places = (str(source),), str(work / "remote"), str(work / "warehouse")
    return RunSettings(*places, replay=replay, apply=True, now=NOW, **options)


def snapshots(work: Path) -> dict[str, list[Any]]:
    """Entries of every snapshot object by key."""
    found = (work / "remote" / "snapshots").rglob("*.snapshot")
    return {str(path.relative_to(work)): snapshot_file.decode(path.read_bytes()).tolist() for path in found}


def table(work: Path, name: str, *without: str) -> list[dict[str, Any]]:
    rows = DeltaTable(str(work / "warehouse" / name)).to_pyarrow_table().to_pylist()
    return sorted(({each: row[each] for each in row if each not in without} for row in rows), key=repr)


def test_what_was_collected_gives_the_entries_boundaries_and_snapshots_of_the_log_itself(
    session: SparkSession, tmp_path: Path
) -> None:
    logs, to, direct, shipped = (tmp_path / name for name in ("logs", "to", "direct", "shipped"))
    expected = assemble(logs)
    assert tiersnap(["-q", "collect", str(logs), "--to", str(to), "--apply"]) == 0
    # The collected run has nothing of the log but what was shipped.
    of_log = run(session, settings(logs, direct))
    kept = shutil.move(logs, tmp_path / "away")
    said: list[str] = []
    of_collected = run(session, settings(to, shipped), talk=said.append)

    assert snapshots(shipped) == snapshots(direct)
    for (folder, offset), path in expected.items():
        topic, _, number = folder.rpartition("-")
        (mine,) = (shipped / "remote/snapshots").glob(f"{topic}-*/{number}/{offset:020d}.snapshot")
        assert snapshot_file.decode(mine.read_bytes()).tolist() == snapshot_file.decode(path.read_bytes()).tolist()
    assert table(shipped, "segments", "log_dir") == table(direct, "segments", "log_dir")
    only_here = ("log_dir", "fingerprint", "path")
    assert table(shipped, "partitions", *only_here) == table(direct, "partitions", *only_here)

    # All that the one tiered the other says is READY, and where.
    tiered = of_log.counts.segments_uploaded
    assert tiered > 20
    assert of_collected.verdicts[Verdict.READY] == sum(of_collected.ready_elsewhere.values()) == tiered
    assert list(of_collected.ready_elsewhere) == [str(logs)]
    assert of_collected.counts.segments_uploaded == 0
    assert not list((shipped / "remote").rglob("*.log"))
    again = run(session, settings(to, shipped))
    assert again.did_nothing
    assert Path(kept).is_dir()


def test_the_command_says_where_ready_segments_must_be_tiered_from_and_takes_what_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, to = write_fleet(tmp_path / "logs"), tmp_path / "to"
    words = ["run", "--source", str(to), "--remote", str(tmp_path / "remote"), "--warehouse", str(tmp_path / "tables"),
             "--report", str(tmp_path / "report"), "--expiration", "none", "--apply"]  # fmt: skip
    assert tiersnap(["-q", "collect", str(logs), "--to", str(to), "--apply"]) == 0
    assert tiersnap(words) == 0
    told = capsys.readouterr().err
    assert (
        "READY, but not uploaded by this run: 9 segments, because `tiersnap collect` copies no segment files. "
        f"On the host of {logs}: tiersnap tier LOGDIR --expiration none --remote {tmp_path / 'remote'} --apply"
    ) in told
    (logs / "orders-0" / f"{40:020d}.log").write_bytes(data_batch(40, 5, 7, 0, 40))
    assert tiersnap(["-q", "collect", str(logs), "--to", str(to), "--apply"]) == 0
    capsys.readouterr()
    assert tiersnap(["--output", "json", *words]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert (result["segments_decoded"], result["ready_elsewhere"]) == (1, {str(logs): 10})

    # The host tiers them; then there is nothing READY left, here or there.
    assert (
        tiersnap(["-q", "tier", str(logs), "--remote", str(tmp_path / "remote"), "--expiration", "none", "--apply"])
        == 0
    )
    capsys.readouterr()
    assert tiersnap(["--output", "json", *words]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert {row["verdict"]: row["segments"] for row in result["rows"]} == {"UPLOADED": 10, "ACTIVE_SEGMENT": 3}
    assert "ready_elsewhere" not in result


def test_what_was_collected_to_s3_is_read_from_there(session: SparkSession, remote: Remote, tmp_path: Path) -> None:
    logs = write_fleet(tmp_path / "logs")
    to = remote.uri.replace("/prefix", "/collected")
    options = ["--endpoint-url", remote.url, "--path-style", "--region", "us-east-1"]
    assert tiersnap(["-q", "collect", str(logs), "--to", to, *options, "--apply"]) == 0
    host = remote.url.removeprefix("http://")
    source = f"{to}?scheme=http&endpoint_override={host}&region=us-east-1"
    done = run(session, settings(source, tmp_path / "fleet"))
    host = ["--remote", str(tmp_path / "host/remote"), "--all", "--expiration", "none", "--apply"]
    assert tiersnap(["-q", "tier", str(logs), *host]) == 0
    assert snapshots(tmp_path / "fleet") == snapshots(tmp_path / "host")
    assert done.ready_elsewhere == {str(logs): 9}


def test_headers_that_were_collected_fold_to_the_entries_of_the_log(session: SparkSession, tmp_path: Path) -> None:
    to = tmp_path / "to"
    logs = DATA / "kafka-3.9.1/logs"
    assert tiersnap(["-q", "collect", str(logs), "--to", str(to), "--headers", "--apply"]) == 0
    found: dict[tuple[str, int, int], list[tuple[Any, ...]]] = {}
    for row in snapshot_entries(collected_batches(session, str(to))).orderBy("producer_id").collect():
        found.setdefault((row.topic, row.partition, row.snapshot_offset), []).append(tuple(row)[5:])
    assert found == {snapshot[1:]: rows for snapshot, rows in kafkas_entries([str(logs)]).items()}


def test_decode_writes_each_header_once_and_of_a_segment_that_grew_the_newest_rows_count(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, warehouse = tmp_path / "logs", tmp_path / "tables"
    shutil.copytree(DATA / "kafka-4.1.1/logs", logs)
    words = ["--output", "json", "decode", "--source", str(logs), "--warehouse", str(warehouse)]

    def decode(*more: str) -> dict[str, Any]:
        capsys.readouterr()
        assert tiersnap([*words, *more]) == 0
        said = capsys.readouterr().out
        assert_follows_schema(said, "json")
        (row,) = json.loads(said)["result"]["rows"]
        return row

    def rows() -> pa.Table:
        frame = session.read.format("delta").load(str(warehouse / "record_batches"))
        return newest(frame, ["log_dir", "topic", "partition", "segment_base_offset"]).toArrow()

    expected = headers(logs)
    assert decode()["batches"] == 0
    assert not (warehouse / "record_batches").exists()
    assert decode("--apply")["batches"] == len(expected)
    assert observed(rows()) == expected
    version = DeltaTable(str(warehouse / "record_batches")).version()
    assert decode("--apply")["segments"] == 0
    assert DeltaTable(str(warehouse / "record_batches")).version() == version

    segment = max((logs / "plain-0").glob("*.log"))
    segment.write_bytes(segment.read_bytes() + data_batch(10_000, 5, 7, 0, 40))
    os.utime(segment, ns=(1, 1))
    assert decode("--apply")["segments"] == 1
    assert observed(rows()) == headers(logs)
    assert len(headers(logs)) == len(expected) + 1


def headers(logs: Path) -> list[tuple[Any, ...]]:
    """(topic, partition, segment, position, base offset, producer id, crc) of every batch, by another way."""
    log_dir, found = open_log_dir(str(logs)), []
    for partition in log_dir.partitions():
        for each in partition.segments:
            scan = SegmentScan(
                log_dir.filesystem,
                each.log.path,
                base_offset=each.base_offset,
                next_base_offset=each.next_base_offset,
            )
            key = partition.topic, partition.partition, each.base_offset
            for batch in scan:
                names = ("position", "base_offset", "producer_id", "crc")
                found += [(*key, *(int(row[name]) for name in names)) for row in batch]
    return sorted(found)


def observed(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ["topic", "partition", "segment_base_offset", "position", "base_offset", "producer_id", "crc"]
    return sorted(tuple(row[name] for name in names) for row in table.select(names).to_pylist())
