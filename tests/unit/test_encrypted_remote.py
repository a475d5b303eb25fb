"""Plain text does not go among segments that the plugin encrypted, and a plan says where nobody knows."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.flaky_store import FlakyStore
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import write_partition
from tests.reference.plugin_compressed import compress_copy
from tests.reference.tiered import age, aiven, tier
from tests.unit.test_whole_but_not_counted import SEGMENTS
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.encryption import (
    PLAIN,
    UNKNOWN,
    Shown,
    shown_by_store,
    shown_by_topic,
)
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.remote_listing import Encryption

pytestmark = pytest.mark.unit

IDS = {"orders": "lZ6vvmajTWKDBUTV6SQAtQ", "payments": "5GXaOJXiRzOuReKRIUWzvw"}
DAY = 86_400_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for topic in IDS:
        write_partition(tmp_path / "logs", topic, 0, SEGMENTS, high_watermark=35, indexes=True, topic_id=IDS[topic])
    return tmp_path / "logs"


def encrypt(store: DirectoryStore, *, topic: str = "") -> list[str]:
    """Let the plugin have encrypted what is there of a topic; keys of the manifests."""
    keys = [info.key for info in store.list() if info.key.startswith(topic)]
    found = [key for key in keys if key.endswith(".rsm-manifest")]
    for key in found:
        manifest = json.loads(store.get(key))
        path = store.root / key
        written = path.stat().st_mtime_ns
        path.write_text(json.dumps(manifest | {"encryption": {"dataKey": "k:x", "aad": "y"}}))
        os.utime(path, ns=(written, written))
    return found


def brokers(store: DirectoryStore, source: Path, *topics: str, bases: set[int] | None = None) -> None:
    """What a broker tiered of some topics, two days ago."""
    for topic in topics:
        tier(source / f"{topic}-0", store, bases=bases)
    for info in list(store.list()):
        age(store, info.key, 2 * DAY)


def verdicts(ran) -> dict[str, dict[str, int]]:
    return {row["partition"]: row["verdicts"] for row in ran.rows}


def run(store: DirectoryStore, source: Path, *words: str):
    return tiersnap("tier", source, "--remote", store.root, "--all", *words)


def test_tier_refuses_plain_text_by_the_manifest_of_the_partition(store: DirectoryStore, source: Path) -> None:
    brokers(store, source, "orders", "payments", bases={0})
    (key,) = encrypt(store, topic="orders")
    ran = run(store, source, "--topic", "orders", "--apply")
    assert_said(ran, 4, "ENCRYPTED_REMOTE", "--allow-plaintext")
    assert verdicts(ran)["orders-0"] == {"ENCRYPTED_REMOTE": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}
    assert sum(info.key.endswith((".log", ".snapshot")) for info in store.list()) == 2, "not a byte"
    assert json.loads(ran.out)["result"]["encryption"] == {"ENCRYPTED": 1}
    report = tiersnap("tier", source, "--remote", store.root, "--report", store.root.parent / "page", "--all")
    assert report.exit_code == 4, "as with --apply"
    rows = json.loads((store.root.parent / "page" / "readiness.json").read_text())
    assert f"the plugin encrypts segments, as the manifest {key} shows, but" in json.dumps(rows)
    allowed = run(store, source, "--topic", "orders", "--allow-plaintext", "--apply")
    assert (allowed.exit_code, allowed.row(partition="orders-0")["uploaded"]) == (0, 2), allowed.err


@pytest.mark.parametrize("evidence", ["topic", "store"])
def test_tier_refuses_a_new_partition_by_its_topic_or_the_store(
    store: DirectoryStore, source: Path, evidence: str
) -> None:
    brokers(store, source, "orders")
    if evidence == "topic":  # the partition is another one of it
        shutil.rmtree(source)
        write_partition(source, "orders", 1, SEGMENTS, high_watermark=35, indexes=True, topic_id=IDS["orders"])
    keys = encrypt(store)
    ran = run(store, source, "--topic", "orders" if evidence == "topic" else "payments", "--apply")
    assert ran.exit_code == 4, ran.err
    (found,) = verdicts(ran).values()
    assert found["ENCRYPTED_REMOTE"] >= 1
    assert [info.key for info in store.list() if info.key.endswith(".rsm-manifest")] == keys


def test_a_plan_says_where_nobody_knows_and_tier_goes_on(store: DirectoryStore, source: Path) -> None:
    planned = run(store, source)
    assert_said(planned, 0, "encryption unknown: 2 partitions")
    assert json.loads(planned.out)["result"]["encryption"] == {"UNKNOWN": 2}
    assert run(store, source, "--apply").exit_code == 0
    again = run(store, source)
    assert "encryption" not in again.err


def test_plain_segments_among_compressed_ones_are_fine(store: DirectoryStore, source: Path) -> None:
    brokers(store, source, "orders", bases={0})
    (manifest,) = store.root.rglob("*.rsm-manifest")
    compress_copy(manifest, 100)
    age(store, str(manifest.relative_to(store.root)), 2 * DAY)
    ran = run(store, source, "--topic", "orders", "--apply")
    assert_said(ran, 0)
    assert verdicts(ran)["orders-0"] == {"UPLOADED": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}


def test_local_tiered_storage_knows_no_encryption(store: DirectoryStore, source: Path) -> None:
    ran = run(store, source, "--layout", "local-tiered-storage")
    assert "encryption" not in ran.err
    assert "encryption" not in json.loads(ran.out)["result"]


def test_run_refuses_plain_text_in_its_verdicts_and_reads_them_from_its_tables(tmp_path: Path, source: Path) -> None:
    runner = Runner(tmp_path, source)
    brokers(runner.store, source, "orders", bases={0})
    encrypt(runner.store)
    ran = runner()
    assert ran.verdicts == {"IN_REMOTE": 1, "ENCRYPTED_REMOTE": 5, "ACTIVE_SEGMENT": 2}
    assert ran.tiered == []
    assert runner().did_nothing
    for key in (info.key for info in runner.store.list() if info.key.endswith(".rsm-manifest")):
        manifest = json.loads(runner.store.get(key))
        runner.store.replace(key, json.dumps({**manifest, "encryption": None}).encode())
    assert runner().verdicts == {"UPLOADED": 5, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 2}, "as if it had never been refused"


# --- where it is looked


def manifest(store: DirectoryStore, topic: str, offset: int, *, is_encrypted: bool, source: Path) -> str:
    """A manifest of a segment of a topic, written now."""
    scratch = DirectoryStore(store.root.parent / f"scratch-{topic}-{offset}")
    tier(source / f"{topic}-0", scratch, bases={offset})
    if is_encrypted:
        encrypt(scratch)
    (key,) = [info.key for info in scratch.list() if info.key.endswith(".rsm-manifest")]
    store.put_if_absent(key, scratch.get(key))
    return key


def test_shown_by_topic_reads_a_few_of_the_newest_manifests(store: DirectoryStore, source: Path) -> None:
    for offset in (0, 10):
        manifest(store, "orders", offset, is_encrypted=False, source=source)
    for info in list(store.list()):
        age(store, info.key, DAY)
    newest = manifest(store, "orders", 20, is_encrypted=True, source=source)
    counting = FlakyStore(store, {})
    assert shown_by_topic(counting, "orders") == Shown(Encryption.ENCRYPTED, newest)
    assert counting.calls == ["list", "get"]
    assert shown_by_topic(store, "payments") == UNKNOWN
    assert shown_by_topic(store, "order") == UNKNOWN, "another topic begins alike"


def test_shown_by_topic_passes_by_what_is_no_manifest(store: DirectoryStore, source: Path) -> None:
    plain = manifest(store, "orders", 0, is_encrypted=False, source=source)
    store.put_if_absent(plain.replace(f"{0:020d}", f"{10:020d}"), b"no manifest")
    assert shown_by_topic(store, "orders") == PLAIN


def test_shown_by_store_passes_by_claims_and_snapshots_without_reading_their_keys(
    store: DirectoryStore, source: Path
) -> None:
    name = TopicIdPartition("orders", IDS["orders"], 0)
    for offset in range(40):
        store.put_if_absent(keys.claim(name, offset, 0), b"{}")
        store.put_if_absent(keys.snapshot(name, offset), b"")
    store.put_if_absent(f"kafka-tiered-storage/orders-0-{IDS['orders']}/{0:020d}-{new_segment_id()}.log", b"x")
    assert shown_by_store(store) == UNKNOWN
    key = manifest(store, "payments", 0, is_encrypted=True, source=source)
    counting = FlakyStore(store, {})
    assert shown_by_store(counting) == Shown(Encryption.ENCRYPTED, key)
    assert counting.calls == ["list"] * 4 + ["get"], "it begins anew behind each of the three folders"


def test_observe_asks_a_topic_and_the_store_once(store: DirectoryStore, tmp_path: Path) -> None:
    for number in range(3):
        write_partition(tmp_path / "logs", "orders", number, SEGMENTS, high_watermark=35, topic_id=IDS["orders"])
    counting = FlakyStore(store, {})
    observe = Observe(aiven(counting), refuses_plaintext=True)
    seen = [observe(partition).encryption for partition in open_log_dir(str(tmp_path / "logs")).partitions()]
    assert seen == ["UNKNOWN"] * 3
    assert counting.calls.count("list") == 3 * 3 + 2, "three a partition without segments, one of topic and store each"
