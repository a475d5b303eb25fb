"""What this version stores, as every version before it stored it: read for what it says, and never taken for older.

tests/golden/formats-<version> holds one of each kind, tables-<version> a warehouse, written once and never again.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from tests.reference.command import assert_said, tiersnap
from tests.reference.recovered import TESTS
from tiersnap.jobs.delta_tables import last_run, read_table
from tiersnap.jobs.pipeline.warehouse import check_format
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.own_objects.claim import Claim, ClaimedSegment, ClaimedSnapshot
from tiersnap.remote_storage.own_objects.cluster_record import read_cluster_id
from tiersnap.remote_storage.own_objects.lease import Lease, LeaseHolder
from tiersnap.remote_storage.own_objects.snapshot_objects import SnapshotManifest
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.collected.listing import Listing
from tiersnap.snapshot.collected.marker import Marker
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, NewerFormatError, TiersnapError, UsageError
from tiersnap.snapshot.replay.snapshot_verdict import Provenance
from tiersnap.snapshot.report.from_tables import LastRun

pytestmark = pytest.mark.unit

STORED = TESTS / "golden"
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PARTITION = TopicIdPartition("orders", ID, 0)
SEGMENT = ClaimedSegment(PARTITION, 0, 0)
ALL = sorted(STORED.glob("formats-*"))
TABLES = sorted(STORED.glob("tables-*"))


def named_cluster(data: bytes, folder: Path) -> str | None:
    store, key = DirectoryStore(folder), keys.cluster(PARTITION)
    store.put_if_absent(key, data)
    return read_cluster_id(store, PARTITION)


READ: dict[str, Callable[[bytes, Path], object]] = {
    "claim.json": lambda data, _: Claim.decode(SEGMENT, data, name="it"),
    "lease.json": lambda data, _: LeaseHolder.decode(data, name="it"),
    "cluster.json": named_cluster,
    "manifest-run-1.json": lambda data, _: SnapshotManifest.decode(data, name="it"),
    "collected.json": lambda data, _: Marker.decode(data, name="it"),
}


@pytest.mark.parametrize("version", ALL, ids=lambda path: path.name)
def test_what_an_earlier_version_stored_says_what_it_said(version: Path, tmp_path: Path) -> None:
    claim, lease, cluster_id, manifest, marker = (
        read((version / name).read_bytes(), tmp_path) for name, read in READ.items()
    )
    assert isinstance(claim, Claim)
    assert (claim.finished, claim.snapshot) == (ID, ClaimedSnapshot(0xAB, "COMPUTED", ""))
    assert (claim.holder.run_id, claim.holder.warehouse, claim.holder.process.pid) == (
        "run-1",
        "s3://bucket/tables",
        17,
    )
    assert isinstance(lease, LeaseHolder)
    assert (lease.run_id, lease.process.host, lease.renewals, lease.ended) == ("run-1", "broker-1", 3, False)
    assert cluster_id == ID
    assert isinstance(manifest, SnapshotManifest)
    (record,) = manifest.snapshots
    assert (manifest.run_id, record.offset, record.crc32c, record.provenance) == (
        "run-1",
        1000,
        7,
        Provenance.COMPUTED,
    )
    assert isinstance(marker, Marker)
    assert (marker.log_dir, marker.partitions, marker.absent) == ("/logs", ("orders-0",), {"gone-1": 5})
    assert last_run(str(version)) == LastRun()


@pytest.mark.parametrize("version", ALL, ids=lambda path: path.name)
def test_listing_of_an_earlier_version_is_refused_by_name(version: Path) -> None:
    data = (version / "listing.parquet").read_bytes()
    if version != ALL[-1]:
        with pytest.raises(UsageError, match=r"it: version [123] of an earlier tiersnap"):
            Listing.decode(data, name="it")
        return
    listing = Listing.decode(data, name="it")
    assert (listing.listed.topic, list(listing.decodes), listing.superseded) == ("orders", [0], {"old": 5})
    assert (listing.listed.log_start_checkpoint, listing.listed.orphan_indexes) == (0, (5,))


@pytest.mark.parametrize("version", TABLES, ids=lambda path: path.name)
def test_report_refuses_tables_of_an_earlier_version_by_name(version: Path) -> None:
    ran = tiersnap("report", "--warehouse", version)
    assert_said(ran, ExitCode.DATA_CORRUPT, f"{version}/partitions", "it lacks replayed", "--warehouse OTHER")
    (log,) = (version / "partitions/_delta_log").glob("*.json")
    with pytest.raises(CorruptDataError, match="partitions: no table of this tiersnap: it lacks replayed"):
        check_format("partitions", "partitions", fields_of(log))


def fields_of(log: Path) -> StructType:
    """Spark's schema of a table, from its first commit."""
    schema = re.search(r'"schemaString":"((?:[^"\\]|\\.)*)"', log.read_text())
    assert schema is not None
    return StructType.fromJson(json.loads(schema[1].encode().decode("unicode_escape")))


@pytest.mark.parametrize("name", READ)
def test_a_newer_object_is_refused_by_name_whatever_else_it_says(name: str, tmp_path: Path) -> None:
    newest = (ALL[-1] / name).read_bytes()
    assert newest.count(b'"version":1') == 1
    for data in (newest.replace(b'"version":1', b'"version":2'), b'{"version":99,"unheard":["of"]}'):
        with pytest.raises(TiersnapError, match="of a newer tiersnap") as raised:
            READ[name](data, tmp_path / str(len(data)))
        assert (raised.value.exit_code, "upgrade tiersnap" in raised.value.hint) == (ExitCode.USAGE, True)
    for version in (b"0", b"true", b'"2"', b"null"):
        with pytest.raises(CorruptDataError) as raised:
            READ[name](newest.replace(b'"version":1', b'"version":' + version), tmp_path / version.decode().strip('"'))
        assert not isinstance(raised.value, NewerFormatError)


def test_a_newer_listing_is_refused() -> None:
    table = pq.read_table(pa.BufferReader((ALL[-1] / "listing.parquet").read_bytes()))
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({b"tiersnap.collected": b"5"}), sink)
    with pytest.raises(UsageError, match="version 5 of a newer tiersnap"):
        Listing.decode(bytes(sink.getvalue()), name="it")


def test_a_lease_of_a_newer_run_is_not_taken_over_however_old(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    newer = (ALL[-1] / "lease.json").read_bytes().replace(b'"version":1', b'"version":2')
    store.replace("lease.json", newer)
    with pytest.raises(NewerFormatError, match=re.escape("lease.json: format version 2")):
        Lease(store, "lease.json", "ours", stale_after_ms=-1)
    assert store.get("lease.json") == newer


def newer_table(folder: Path) -> Path:
    shutil.copytree(ALL[-1] / "runs", folder / "runs")
    (log,) = (folder / "runs/_delta_log").glob("*.json")
    said = log.read_text()
    assert said.count('\\"tiersnap.format\\":1') == 1
    log.write_text(said.replace('\\"tiersnap.format\\":1', '\\"tiersnap.format\\":2'))
    return log


def test_a_newer_table_is_refused_with_and_without_spark(tmp_path: Path) -> None:
    log = newer_table(tmp_path)
    with pytest.raises(UsageError, match="format 2 of a newer tiersnap, this one reads 1"):
        read_table(str(tmp_path), "runs", ["run"])
    with pytest.raises(UsageError, match="format 2 of a newer tiersnap, this one reads 1"):
        check_format("runs", "runs", fields_of(log))
