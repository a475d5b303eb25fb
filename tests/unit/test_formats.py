"""What this version stores, in the one form that it reads: any other form is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema, write_deltalake
from pyspark.sql.types import StructType

from tests.reference.command import assert_said, tiersnap
from tiersnap.jobs.cli.delta_tables import read_table
from tiersnap.jobs.pipeline.warehouse import check_format
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSnapshot
from tiersnap.remote_storage.locks.lease import Lease, LeaseHolder
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id, read_cluster_id
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotManifest
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.collected.listing import CollectedDecode, Listing
from tiersnap.snapshot.collected.marker import Marker
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, NewerFormatError, TiersnapError, UsageError
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.tables.facts import PARTITIONS
from tiersnap.snapshot.tables.listed import ListedPartition
from tiersnap.snapshot.tables.schema_parts import VERSION_KEY
from tiersnap.snapshot.tables.spark_made_tables import RUNS

pytestmark = pytest.mark.unit

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PARTITION = TopicIdPartition("orders", ID, 0)
PROCESS = b'"process":{"host":"broker-1","pid":17,"processStart":"99"},'
CLAIM = (
    b'{"version":1,"attempts":[{"segmentId":"AAAAAAAAAAAAAAAAAAAAAQ","runId":"run-1",'
    b'"warehouse":"s3://bucket/tables",' + PROCESS + b'"ended":false}],"finished":"AAAAAAAAAAAAAAAAAAAAAQ",'
    b'"snapshot":{"crc32c":"000000ab","provenance":"COMPUTED","verdict":""},"kept":["AAAAAAAAAAAAAAAAAAAAAg"]}'
)
LEASE = b'{"version":1,"runId":"run-1",' + PROCESS + b'"renewals":3,"ended":false}'
CLUSTER = b'{"version":1,"clusterId":"AAAAAAAAAAAAAAAAAAAAAQ"}'
MANIFEST = (
    b'{"version":1,"tool":"tiersnap 0.1.0","runId":"run-1","topic":"orders","topicId":"AAAAAAAAAAAAAAAAAAAAAQ",'
    b'"partition":0,"snapshots":[{"offset":1000,"size":56,"crc32c":"00000007","entries":1,"provenance":"COMPUTED",'
    b'"foldStartOffset":0}]}'
)
MARKER = (
    b'{"version":1,"logDir":"/logs","nodeId":1,"clusterId":"AAAAAAAAAAAAAAAAAAAAAQ",'
    b'"directoryId":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":["orders-0"],"absent":{"gone-1":5}}'
)


@dataclass(frozen=True)
class ClusterObject:
    """`cluster.json`, which has no type of its own."""

    folder: Path

    def decode(self, data: bytes) -> ClusterObject:
        DirectoryStore(self.folder).put_if_absent(keys.cluster(PARTITION), data)
        read_cluster_id(DirectoryStore(self.folder), PARTITION)
        return self

    def encode(self) -> bytes:
        named = read_cluster_id(DirectoryStore(self.folder), PARTITION)
        other = DirectoryStore(self.folder / "other")
        put_cluster_id(other, PARTITION, named or "")
        return other.get(keys.cluster(PARTITION))


Read = Callable[[bytes, Path], Claim | LeaseHolder | ClusterObject | SnapshotManifest | Marker]
STORED: dict[str, tuple[bytes, Read]] = {
    "claim": (CLAIM, lambda data, _: Claim.decode(data, name="it")),
    "lease": (LEASE, lambda data, _: LeaseHolder.decode(data, name="it")),
    "cluster": (CLUSTER, lambda data, folder: ClusterObject(folder).decode(data)),
    "manifest": (MANIFEST, lambda data, _: SnapshotManifest.decode(data, name="it")),
    "marker": (MARKER, lambda data, _: Marker.decode(data, name="it")),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_object_is_written_as_it_was_read(name: str, tmp_path: Path) -> None:
    data, read = STORED[name]
    assert read(data, tmp_path).encode() == data


def test_stored_objects_say_what_their_bytes_say(tmp_path: Path) -> None:
    claim, lease, _, manifest, marker = (read(data, tmp_path) for data, read in STORED.values())
    assert isinstance(claim, Claim)
    assert (claim.finished, claim.snapshot) == (ID, ClaimedSnapshot.of(0xAB, "COMPUTED", ""))
    assert (claim.holder.run_id, claim.holder.warehouse) == ("run-1", "s3://bucket/tables")
    assert (claim.holder.process.pid, claim.kept) == (17, ("AAAAAAAAAAAAAAAAAAAAAg",))
    assert isinstance(lease, LeaseHolder)
    assert (lease.run_id, lease.process.host, lease.renewals, lease.ended) == ("run-1", "broker-1", 3, False)
    assert read_cluster_id(DirectoryStore(tmp_path), PARTITION) == ID
    assert isinstance(manifest, SnapshotManifest)
    (record,) = manifest.snapshots
    assert (record.offset, record.crc32c, record.provenance) == (1000, "00000007", Provenance.COMPUTED)
    assert isinstance(marker, Marker)
    assert (marker.log_dir, marker.partitions, marker.absent) == ("/logs", ("orders-0",), {"gone-1": 5})


@pytest.mark.parametrize("name", STORED)
def test_newer_object_is_refused_by_name_whatever_else_it_says(name: str, tmp_path: Path) -> None:
    stored, read = STORED[name]
    assert stored.count(b'"version":1') == 1
    for data in (stored.replace(b'"version":1', b'"version":2'), b'{"version":99,"unheard":["of"]}'):
        with pytest.raises(TiersnapError, match="a newer tiersnap wrote") as raised:
            read(data, tmp_path / str(len(data)))
        assert (raised.value.exit_code, "upgrade tiersnap" in raised.value.hint) == (ExitCode.USAGE, True)
    for version in (b"0", b"true", b'"2"', b"null"):
        with pytest.raises(CorruptDataError) as damaged:
            read(stored.replace(b'"version":1', b'"version":' + version), tmp_path / version.decode().strip('"'))
        assert not isinstance(damaged.value, NewerFormatError)


@pytest.mark.parametrize("name", STORED)
def test_object_that_lacks_a_member_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """As an earlier form does; a claim without `kept` was read."""
    stored, read = STORED[name]
    members = json.loads(stored)
    for member in members.keys() - {"version"}:
        data = json.dumps({each: value for each, value in members.items() if each != member}).encode()
        with pytest.raises(CorruptDataError, match=f"not .* missing required field `{member}`") as raised:
            read(data, tmp_path / member)
        assert raised.value.message.startswith(("it: ", DirectoryStore(tmp_path / member).uri))
        assert raised.value.hint


def listing() -> Listing:
    """Of a partition without segments, beside a decode that was shipped."""
    listed = ListedPartition(log_dir="/logs", topic="orders", partition=0, log_start_checkpoint=0, orphan_indexes=(5,))
    return Listing(listed, {0: CollectedDecode(0, "decode", size_bytes=7, run_starts=(0, 3))}, {"old": 5})


def test_listing_is_read_as_it_was_written() -> None:
    assert Listing.decode(listing().encode(), name="it") == listing()


@pytest.mark.parametrize(("version", "of"), [(1, "an earlier"), (4, "an earlier"), (6, "a newer")])
def test_listing_of_another_version_is_refused_by_name(version: int, of: str) -> None:
    table = pq.read_table(pa.BufferReader(listing().encode()))
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({b"tiersnap.collected": str(version).encode()}), sink)
    with pytest.raises(UsageError, match=f"it: {of} tiersnap wrote this file, in version {version}"):
        Listing.decode(bytes(sink.getvalue()), name="it")


def test_a_lease_of_a_newer_run_is_not_taken_over_however_old(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    newer = LEASE.replace(b'"version":1', b'"version":2')
    store.replace("lease.json", newer)
    with pytest.raises(NewerFormatError, match=r"lease\.json: .* format version 2"):
        Lease(store, "lease.json", "ours", stale_after_ms=-1)
    assert store.get("lease.json") == newer


def write_table(folder: Path, schema: pa.Schema, *, version: int) -> StructType:
    """A table without rows, as Spark writes its first commit; return Spark's schema of it."""
    described = json.loads(Schema.from_arrow(schema).to_json())
    described["fields"][0]["metadata"] = {VERSION_KEY: version}
    metadata = {
        "id": "8a1e7c1e-5d52-4f3a-9c5f-1a2b3c4d5e6f",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(described),
        "partitionColumns": [],
        "configuration": {},
    }
    log = folder / "_delta_log" / "00000000000000000000.json"
    log.parent.mkdir(parents=True)
    lines = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}
    log.write_text("\n".join(map(json.dumps, lines)))
    return StructType.fromJson(described)


def test_a_newer_table_is_refused_with_and_without_spark(tmp_path: Path) -> None:
    found = write_table(tmp_path / "runs", RUNS, version=2)
    with pytest.raises(
        UsageError, match="a newer tiersnap wrote the table in format 2, but this tiersnap reads format 1"
    ):
        read_table(str(tmp_path), "runs", ["run"])
    with pytest.raises(
        UsageError, match="a newer tiersnap wrote the table in format 2, but this tiersnap reads format 1"
    ):
        check_format("runs", "runs", found)


def test_report_refuses_tables_that_lack_a_column_by_name(tmp_path: Path) -> None:
    without = pa.schema([each for each in PARTITIONS if each.name != "fingerprint"])
    found = write_table(tmp_path / "partitions", without, version=1)
    ran = tiersnap("report", "--warehouse", tmp_path)
    assert_said(ran, ExitCode.DATA_CORRUPT, f"{tmp_path}/partitions", "it lacks fingerprint", "--warehouse OTHER")
    with pytest.raises(
        CorruptDataError, match="partitions: not a table of this tiersnap, because it lacks fingerprint"
    ):
        check_format("partitions", "partitions", found)


@pytest.mark.parametrize("settings", ['{"remote": "s3://b/x"}', "{", '{"sources": 7}'])
def test_report_refuses_a_run_whose_settings_have_another_form(tmp_path: Path, settings: str) -> None:
    """Those of an earlier form were filled up with defaults."""
    row = dict.fromkeys(RUNS.names, 0) | {"tool": "tiersnap 0.1.0", "run_id": "run-1", "settings": settings}
    write_deltalake(tmp_path / "runs", pa.Table.from_pylist([row], schema=RUNS))
    ran = tiersnap("report", "--warehouse", tmp_path)
    assert_said(
        ran,
        ExitCode.DATA_CORRUPT,
        f"{tmp_path}/runs: this tiersnap cannot read the settings that the last run stored",
        "--warehouse OTHER",
    )
