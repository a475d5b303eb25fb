"""What `repair` does about partition.metadata, leader epochs and indexes: from what, when, and when not."""

from __future__ import annotations

import shutil
import struct
import uuid
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.broken_indexes import BASES, write_broken_indexes
from tests.reference.broker_lock import broker
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.recovered import DATA
from tests.reference.small_log import tree, write_small_log
from tests.unit.test_index_damaged import CLOCK, INDEXES, right_indexes
from tests.unit.test_lost_leader_epochs import EPOCHS, SEGMENTS, checkpoint, spoil, write
from tiersnap.snapshot.log.cluster_metadata import read_topic_ids
from tiersnap.snapshot.log.file_system import LOCAL

pytestmark = pytest.mark.unit

KEEP = ("--expiration", "none")


def actions(ran: Ran) -> dict[str, str]:
    return {row.get("file") or f"{row['offset']:020d}.snapshot": row["action"] for row in ran.rows}


def indexes(folder: Path) -> dict[tuple[int, str], bytes]:
    files = (folder / f"{base:020d}{suffix}" for base in BASES for suffix in INDEXES[:2])
    return {(int(path.stem), path.suffix): path.read_bytes() for path in files}


def test_repair_writes_right_indexes_in_the_place_of_broken_ones(tmp_path: Path) -> None:
    folder = write_broken_indexes(tmp_path)
    before = tree(folder)
    plan = tiersnap("repair", tmp_path, *CLOCK)
    assert_said(
        plan,
        4,
        "2 index, checkpoint and metadata files: to write",
        "2 index, checkpoint and metadata files: wrong; to replace: tiersnap repair",
    )
    assert sorted(actions(plan).values()) == [*["NEEDS_REPLACE"] * 2, *["WRITE"] * 2]
    assert tree(folder) == before
    done = tiersnap("repair", tmp_path, *CLOCK, "--replace", "--apply")
    assert_said(done, 0, "4 index, checkpoint and metadata files: written")
    assert sorted(actions(done).values()) == [*["REPLACE"] * 2, *["WRITE"] * 2]
    assert indexes(folder) == right_indexes()
    changed = {name for name, data in tree(folder).items() if before[name] != data}
    assert changed == actions(done).keys()
    for command in ("scan", "verify", "doctor", "repair"):
        assert_said(tiersnap(command, tmp_path, *CLOCK), 0)


def test_repair_writes_only_files_that_hold_nothing_without_replace(tmp_path: Path) -> None:
    folder = write_broken_indexes(tmp_path)
    before, right = indexes(folder), right_indexes()
    assert_said(tiersnap("repair", tmp_path, *CLOCK, "--apply"), 4)
    assert indexes(folder) == {at: data if data.strip(b"\0") else right[at] for at, data in before.items()}


def test_repair_makes_a_transaction_index_that_brokers_wrote(tmp_path: Path) -> None:
    source = DATA / "kafka-2.7.2/logs"
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    folder = Path(shutil.copytree(source / "payments-0", tmp_path / "payments-0"))
    first = min(folder.glob("*.txnindex"))
    right = first.read_bytes()
    first.write_bytes(right[:10] + struct.pack(">q", 1 << 40) + right[18:])
    assert_said(tiersnap("repair", tmp_path, *CLOCK, "--replace", "--apply"), 0)
    assert first.read_bytes() == right


def test_repair_beside_a_running_broker_is_refused(tmp_path: Path) -> None:
    folder = write_broken_indexes(tmp_path)
    before = tree(folder)
    (tmp_path / ".lock").touch()
    with broker(tmp_path):
        assert_said(tiersnap("repair", tmp_path, *CLOCK, "--replace", "--apply"), 2, "a broker is running")
    assert tree(folder) == before


def test_repair_elsewhere_leaves_other_files_alone(tmp_path: Path) -> None:
    folder = write_broken_indexes(tmp_path / "logs")
    before = tree(folder)
    ran = tiersnap("repair", tmp_path / "logs", *CLOCK, "--out", tmp_path / "out", "--replace", "--all")
    assert {"file" in row for row in ran.rows} == {False}
    assert tree(folder) == before


def test_new_file_has_the_owner_and_mode_of_the_log(tmp_path: Path) -> None:
    folder = write_broken_indexes(tmp_path)
    for path in folder.glob("*.log"):
        path.chmod(0o640)
    assert_said(tiersnap("repair", tmp_path, *CLOCK, "--replace", "--apply"), 0)
    mended = folder / f"{BASES[1]:020d}.timeindex"
    assert (mended.stat().st_mode & 0o777, mended.stat().st_uid) == (0o640, folder.stat().st_uid)
    assert not list(folder.glob("*.tmp"))


# --- leader epochs


@pytest.mark.parametrize("how", ["empty", "zeros", None])
def test_repair_writes_the_epochs_of_the_batches(tmp_path: Path, how: str | None) -> None:
    folder = write(tmp_path)
    right = checkpoint(folder).read_bytes()
    spoil(folder, how)
    assert_said(tiersnap("repair", tmp_path, *KEEP, "--apply"), 0)
    assert checkpoint(folder).read_bytes() == right


@pytest.mark.parametrize("how", ["garbage", "no entry"])
def test_repair_replaces_a_file_of_epochs_only_when_told(tmp_path: Path, how: str) -> None:
    folder = write(tmp_path)
    right = checkpoint(folder).read_bytes()
    spoil(folder, how)
    assert tiersnap("repair", tmp_path, *KEEP, "--apply").exit_code in (4, 5)
    assert checkpoint(folder).read_bytes() != right
    assert_said(tiersnap("repair", tmp_path, *KEEP, "--replace", "--apply"), 0)
    assert checkpoint(folder).read_bytes() == right


def test_repair_keeps_the_epochs_that_are_told(tmp_path: Path) -> None:
    """As a broker goes on that started with an empty file."""
    folder = write(tmp_path, leader_epochs=[(7, 45)])
    assert_said(tiersnap("repair", tmp_path, *KEEP, "--replace", "--apply"), 0)
    assert checkpoint(folder).read_text() == lb.leader_epochs_text([*EPOCHS, (7, 45)])


@pytest.mark.parametrize("log_start", [0, None])
def test_repair_makes_no_epochs_of_a_log_that_may_go_back_further(tmp_path: Path, log_start: int | None) -> None:
    """A leader deletes remote segments of epochs below its first one."""
    left = {base: SEGMENTS[base] for base in (20, 30, 40)}
    folder = write(tmp_path, left, log_start_offset=log_start)
    spoil(folder, "empty")
    ran = tiersnap("repair", tmp_path, *KEEP, "--replace", "--apply")
    assert ran.exit_code == 4
    assert actions(ran)["leader-epoch-checkpoint"] == "NOT_TOLD"
    assert "copy the file from another replica" in next(
        row["reason"] for row in ran.rows if row["action"] == "NOT_TOLD"
    )
    assert checkpoint(folder).read_bytes() == b""


def test_repair_makes_no_epochs_if_a_copy_begins_before_the_files(tmp_path: Path) -> None:
    """Whose lineage it is of the lost epochs would tell."""
    write(tmp_path / "before", {base: SEGMENTS[base] for base in (0, 10)}, high_watermark=20)
    remote = ("--remote", tmp_path / "remote")
    assert tiersnap("tier", tmp_path / "before", *remote, "--apply").exit_code == 0
    folder = write(tmp_path / "logs", {base: SEGMENTS[base] for base in (20, 30, 40)})
    spoil(folder, "empty")
    ran = tiersnap("repair", tmp_path / "logs", *KEEP, *remote, "--apply")
    assert ran.exit_code == 4
    assert actions(ran)["leader-epoch-checkpoint"] == "NOT_TOLD"
    assert checkpoint(folder).read_bytes() == b""


def test_repair_makes_epochs_if_the_log_starts_at_the_first_file(tmp_path: Path) -> None:
    """An empty remote location proves nothing: retention may have deleted what came before."""
    left = {base: SEGMENTS[base] for base in (20, 30, 40)}
    folder = write(tmp_path / "logs", left)
    spoil(folder, "empty")
    (tmp_path / "remote").mkdir()
    words = ("repair", tmp_path / "logs", *KEEP, "--remote", tmp_path / "remote", "--apply")
    assert_said(
        tiersnap(*words), 4, "log start of orders-0 unknown", "leader-epoch-checkpoint lost epochs of the partition"
    )
    assert checkpoint(folder).read_bytes() == b""
    assert_said(tiersnap(*words, "--log-start", "orders-0=20"), 0)
    assert checkpoint(folder).read_text() == lb.leader_epochs_text([(3, 20), (4, 25)])


def test_repair_makes_no_epochs_that_a_damaged_batch_hides(tmp_path: Path) -> None:
    """Both neighbours have one epoch, so that the listing passes the segment by; what is written is read whole."""
    first, second = SEGMENTS[10]
    segments = {**SEGMENTS, 10: [first, second[:70] + bytes([second[70] ^ 1]) + second[71:]]}
    folder = write(tmp_path, segments)
    spoil(folder, "empty")
    ran = tiersnap("repair", tmp_path, *KEEP, "--apply")
    assert actions(ran)["leader-epoch-checkpoint"] == "NOT_TOLD"
    assert checkpoint(folder).read_bytes() == b""


# --- the topic's id


def topic_record(name: str, topic_id: uuid.UUID) -> bytes:
    text = name.encode()
    return bytes([1, 2, 0, len(text) + 1]) + text + topic_id.bytes + b"\0"


def removal(topic_id: uuid.UUID) -> bytes:
    return bytes([1, 9, 0]) + topic_id.bytes + b"\0"


def metadata_batch(offset: int, *values: bytes) -> bytes:
    records = b"".join(lb.record(number, 0, None, value) for number, value in enumerate(values))
    count = len(values)
    return lb.raw_batch(offset, last_offset_delta=count - 1, record_count=count, records=records)


OTHER = bytes([1, 12, 0, 1, 0])  # FeatureLevelRecord
OLD, ORDERS, PAYMENTS = (uuid.UUID(int=number << 64 | 7) for number in (1, 2, 3))
TEXT = {OLD: "AAAAAAAAAAEAAAAAAAAABw", ORDERS: "AAAAAAAAAAIAAAAAAAAABw", PAYMENTS: "AAAAAAAAAAMAAAAAAAAABw"}


def write_metadata_log(log_dir: Path, *, is_damaged: bool = False) -> None:
    """`orders` was created, removed and created again; the checkpoint ends before the removal."""
    folder = log_dir / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}-{0:010d}.checkpoint").write_bytes(metadata_batch(0, OTHER))
    state = metadata_batch(0, topic_record("orders", OLD)) + metadata_batch(1, topic_record("payments", PAYMENTS))
    (folder / f"{3:020d}-{1:010d}.checkpoint").write_bytes(state)
    before = [metadata_batch(0, OTHER, topic_record("orders", OLD), topic_record("payments", PAYMENTS))]
    after = [metadata_batch(3, removal(OLD)), metadata_batch(4, OTHER, topic_record("orders", ORDERS))]
    (folder / f"{0:020d}.log").write_bytes(b"".join(before))
    data = b"".join(after)
    (folder / f"{3:020d}.log").write_bytes(data[:-5] + b"\1" + data[-4:] if is_damaged else data)


def test_metadata_log_tells_the_ids_of_topics_that_exist(tmp_path: Path) -> None:
    assert read_topic_ids(LOCAL, str(tmp_path)) == {}
    write_metadata_log(tmp_path)
    assert read_topic_ids(LOCAL, str(tmp_path)) == {"orders": TEXT[ORDERS], "payments": TEXT[PAYMENTS]}


def test_damaged_metadata_log_tells_no_id(tmp_path: Path) -> None:
    write_metadata_log(tmp_path, is_damaged=True)
    assert read_topic_ids(LOCAL, str(tmp_path)) == {}


def without_id(log_dir: Path, data: bytes | None = b"") -> Path:
    folder = write_small_log(log_dir)
    path = folder / "partition.metadata"
    path.unlink() if data is None else path.write_bytes(data)
    return folder


@pytest.mark.parametrize("data", [b"", bytes(43), None])
def test_repair_takes_the_id_from_the_metadata_log(tmp_path: Path, data: bytes | None) -> None:
    folder = without_id(tmp_path, data)
    write_metadata_log(tmp_path)
    assert_said(tiersnap("repair", tmp_path, *KEEP, "--apply"), 0)
    assert (folder / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TEXT[ORDERS]}"


def test_repair_replaces_other_content_only_when_told(tmp_path: Path) -> None:
    folder = without_id(tmp_path, b"version: 0\ntopic_id: ?")
    write_metadata_log(tmp_path)
    assert actions(tiersnap("repair", tmp_path, *KEEP, "--apply")) == {"partition.metadata": "NEEDS_REPLACE"}
    assert_said(tiersnap("repair", tmp_path, *KEEP, "--replace", "--apply"), 0)
    assert TEXT[ORDERS] in (folder / "partition.metadata").read_text()


def test_repair_refuses_an_id_that_another_source_contradicts(tmp_path: Path) -> None:
    folder = without_id(tmp_path)
    write_metadata_log(tmp_path)
    (tmp_path / "ids").write_text(f"orders {TEXT[OLD]}\n")
    ran = tiersnap("repair", tmp_path, *KEEP, "--topic-ids", tmp_path / "ids", "--apply")
    assert_said(ran, 2, f"--topic-ids says {TEXT[OLD]}, __cluster_metadata says {TEXT[ORDERS]}")
    assert (folder / "partition.metadata").read_bytes() == b""


KRAFT = "version=1\nnode.id=1\ncluster.id=A5kwioMzQ9yMd5hjjsI52A\n"
ZOOKEEPER = "version=0\nbroker.id=1\ncluster.id=A5kwioMzQ9yMd5hjjsI52A\n"


@pytest.mark.parametrize(("mode", "expected"), [(KRAFT, {"partition.metadata": "NOT_TOLD"}), (ZOOKEEPER, {})])
def test_missing_id_waits_for_a_person_only_in_kraft_mode(tmp_path: Path, mode: str, expected: dict[str, str]) -> None:
    without_id(tmp_path, None)
    (tmp_path / "meta.properties").write_text(mode)
    ran = tiersnap("repair", tmp_path, *KEEP)
    assert (actions(ran), ran.exit_code) == (expected, 4 if expected else 0)
    told = " ".join(tiersnap("doctor", tmp_path, output="table").out.split())
    assert ("start no broker before partition.metadata has the topic's id" in told) == bool(expected)
