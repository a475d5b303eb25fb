"""A record that brokers read back from a location, or from nowhere: asked of a cluster in memory."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace

import pytest
from msgspec import structs

from tests.protocol.memory_store import MemoryStore
from tests.reference.killable_store import Clock, KillableStore, KilledError
from tests.reference.model_cluster import CLUSTER_ID, ENDLESS
from tests.reference.planned import PARTITION, write_log
from tests.reference.quick_time import QuickTime
from tests.reference.reading_cluster import ReadingCluster
from tests.reference.tiered import aiven, tier
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    ReadBackHeldError,
    UnprovenPlaceError,
    WrongPlaceError,
)
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.locks.read_back_record import (
    PROBE_TOPIC,
    STALE_AFTER_MS,
    ReadBackRecord,
    ReadBackStore,
)
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.metadata.topic_configs import RETENTION_MS
from tiersnap.remote_storage.publish import read_back, read_back_topic
from tiersnap.remote_storage.publish.location_evidence import ProvePlace
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, LocationState
from tiersnap.remote_storage.publish.read_back_topic import PROBE_RETENTION
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.probe import PROBES
from tiersnap.snapshot.errors import CorruptDataError

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> QuickTime:
    clock = QuickTime()
    for module in (read_back, read_back_topic):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def right(tmp_path) -> DirectoryStore:
    """Where brokers read: they have tiered three segments there themselves."""
    write_log(tmp_path / "disk")
    store = DirectoryStore(tmp_path / "remote")
    return store


@pytest.fixture
def cluster(tmp_path, right) -> ReadingCluster:
    made = ReadingCluster(aiven(right))
    made.create(PARTITION, end=20, settings=ENDLESS)
    for each in tier(tmp_path / "disk" / "orders-0", right):
        made.append(SegmentRecord(replace(each, state=SegmentState.COPY_SEGMENT_STARTED)))
        made.append(SegmentUpdate(each.id, 1, each.event_timestamp, SegmentState.COPY_SEGMENT_FINISHED))
    return made


@pytest.fixture
def replica(cluster, right) -> DirectoryStore:
    """A copy of it, with all times, as `cp -a` makes one."""
    root = right.root.with_name("replica")
    shutil.copytree(right.root, root, copy_function=shutil.copy2)
    return DirectoryStore(root)


def prover(cluster, store, *, prove=True, unproven=False, apply=True, said=None) -> ProvePlace:
    talk = ([] if said is None else said).append
    return ProvePlace(cluster, MetadataTopic.of(cluster), store, (), prove, unproven, apply, talk)


def objects(store: ObjectStore) -> dict[str, bytes]:
    return {each.key: store.get(each.key) for each in store.list()}


def left_of(cluster: ReadingCluster, *stores: ObjectStore) -> list[str]:
    """Topics and objects of read-backs, but for what is kept of one."""
    topics = [name for name in cluster.there if name.startswith(PROBE_TOPIC)]
    return topics + [each.key for store in stores for each in store.list() if PROBE_TOPIC in each.key]


# A replica of the location.


@pytest.mark.parametrize("apply", [False, True])
def test_replica_is_unproven_although_it_holds_what_brokers_uploaded(cluster, replica, apply):
    before = objects(replica)
    with pytest.raises(UnprovenPlaceError, match="a copy of the location would have this object too"):
        prover(cluster, replica, prove=False, apply=apply).prove(aiven(replica))
    assert prover(cluster, replica, prove=False).verdict(aiven(replica)).state is LocationState.UNPROVEN
    assert objects(replica) == before, "nothing is written"


@pytest.mark.parametrize("unproven", [False, True])
def test_read_back_contradicts_a_replica_and_nothing_is_left_there(cluster, right, replica, unproven):
    before, there = objects(replica), objects(right)
    with pytest.raises(WrongPlaceError, match="brokers read another location: brokers cannot read the record"):
        prover(cluster, replica, unproven=unproven).prove(aiven(replica))
    assert (objects(replica), objects(right)) == (before, there)
    assert left_of(cluster, right, replica) == []


def test_read_back_does_not_wait_for_deletions_by_brokers_that_read_elsewhere(cluster, right, replica, quick):
    before = objects(replica)
    with pytest.raises(WrongPlaceError):
        prover(cluster, replica).prove(aiven(replica))
    assert quick.slept < 16, "errors for 10 s, and nobody deletes anything here"
    assert objects(replica) == before


def test_read_back_proves_the_location_and_is_kept_for_runs_without_it(cluster, right, replica):
    before = objects(right)
    assert prover(cluster, right, apply=False).prove(aiven(right)).evidence is EvidenceKind.READ_BACK_PLANNED
    assert objects(right) == before, "a plan reads nothing back"
    proof = prover(cluster, right).prove(aiven(right))
    assert (proof.evidence, left_of(cluster, right)) == (EvidenceKind.READ_BACK, [])
    assert objects(right).keys() - before.keys() == {keys.read_back(CLUSTER_ID)}
    for prove in (False, True):
        client = cluster.view(lambda what, action: pytest.fail(what) if "creation" in what else action())
        kept = prover(client, right, prove=prove).prove(aiven(right))
        assert kept.evidence is EvidenceKind.READ_BACK
        assert "neither restarted nor changed" in kept.sentence
    # A replica of the location holds it, too.
    shutil.copytree(right.root / "claims", replica.root / "claims", dirs_exist_ok=True)
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, replica, prove=False).prove(aiven(replica))


def test_kept_read_back_does_not_count_in_a_copy_at_the_same_path(cluster, right):
    prover(cluster, right).prove(aiven(right))
    moved = right.root.with_name("moved")
    right.root.rename(moved)
    shutil.copytree(moved, right.root)
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, right, prove=False).prove(aiven(right))


@pytest.mark.parametrize("change", ["restart", "settings", "silence", "another cluster"])
def test_kept_read_back_ends_when_brokers_may_read_another_location(cluster, right, change, monkeypatch):
    prover(cluster, right).prove(aiven(right))
    if change == "restart":
        cluster.leader_epoch += 1
    elif change == "settings":
        cluster.of_brokers["rsm.config.dir"] = None
    elif change == "silence":
        cluster.leader_epoch = -1
    else:
        monkeypatch.setattr(cluster, "cluster_id", lambda: "another-cluster-AAAAAA")
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, right, prove=False).prove(aiven(right))
    assert prover(cluster, right).prove(aiven(right)).evidence is EvidenceKind.READ_BACK


def test_read_back_proves_a_location_whose_objects_are_lost(cluster, right):
    shutil.rmtree(right.root / f"orders-{PARTITION.topic_id}")
    with pytest.raises(WrongPlaceError, match="does not have the newest segments"):
        prover(cluster, right, prove=False, unproven=True).prove(aiven(right))
    proof = prover(cluster, right).prove(aiven(right))
    assert proof.evidence is EvidenceKind.READ_BACK
    assert "; however, the location does not have the newest segments that brokers uploaded" in proof.sentence


def test_read_back_is_silent_when_brokers_know_no_such_topic_configs(cluster, right):
    cluster.refuses = "INVALID_CONFIG: Unknown topic config name: remote.log.copy.disable"
    with pytest.raises(UnprovenPlaceError, match=r"needs Kafka 3\.9 or later in KRaft mode") as caught:
        prover(cluster, right).prove(aiven(right))
    assert cluster.refuses in caught.value.message
    assert keys.read_back(CLUSTER_ID) not in objects(right)


def test_read_back_is_silent_when_brokers_go_on_reading_their_own_copy(cluster, right, monkeypatch):
    monkeypatch.setattr(cluster, "_finished", lambda _: iter(()))
    with pytest.raises(UnprovenPlaceError, match="brokers read no record back from the location within"):
        prover(cluster, right).prove(aiven(right))
    assert left_of(cluster, right) == []


def test_read_back_is_silent_in_a_directory_that_does_not_exist(cluster, right):
    absent = DirectoryStore(right.root.with_name("absent"))
    with pytest.raises(WrongPlaceError, match="does not have the newest segments"):
        prover(cluster, absent).prove(aiven(absent))
    assert not absent.root.exists()


# What killed runs leave.


def test_read_back_killed_at_any_request_leaves_nothing_for_long():
    """The next run at the location deletes the topic and its objects, whatever it is asked for."""
    step = kills = 0
    while True:
        store = MemoryStore()
        cluster = ReadingCluster(aiven(store))
        store.put_if_absent("kept", b"x")
        clock = Clock(dies_before=step)
        client = cluster.view(lambda what, action, clock=clock: clock.step(action))
        location = aiven(KillableStore(store, clock))
        try:
            ProvePlace(client, MetadataTopic.of(cluster), location.store, (), True, False, True, str).prove(location)
        except KilledError:
            kills += 1
        else:
            break
        with pytest.raises(UnprovenPlaceError):
            prover(cluster, store, prove=False).prove(aiven(store))
        assert left_of(cluster, store) == [], step
        assert [key for key in objects(store) if not key.startswith(PROBES)] == ["kept"], step
        step += 1
    assert kills > 30


def test_topic_that_brokers_do_not_delete_is_named_and_goes_with_the_next_run(cluster, right):
    def refuse(what, action):
        if what == "deletion of a topic":
            raise BrokerUnavailableError("model:9092: no answer")
        return action()

    said: list[str] = []
    proof = prover(cluster.view(refuse), right, said=said).prove(aiven(right))
    assert proof.evidence is EvidenceKind.READ_BACK
    (topic,) = left_of(cluster, right)
    assert f"kafka-topics --delete --topic {topic}" in said
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, right, prove=False).prove(aiven(right))
    assert left_of(cluster, right) == []


def test_topic_of_a_killed_run_elsewhere_goes_after_an_hour(cluster, right):
    """Topics that only look like one stay."""
    now = int(time.time())
    old, young, other = (f"{PROBE_TOPIC}{at}-0123abcd" for at in (now - 3601, now - 60, now - 7200))
    for name in (old, young, other):
        cluster.create_topic(name, {} if name == other else {RETENTION_MS: PROBE_RETENTION})
    said: list[str] = []
    prover(cluster, right, said=said).prove(aiven(right))
    assert {name for name in cluster.there if name.startswith(PROBE_TOPIC)} == {young, other}
    assert any(old in line for line in said)


# One run at a time.


def record_of(store: DirectoryStore, **fields: object) -> ReadBackRecord:
    server = f"inode {store.root.stat().st_ino}"
    return structs.replace(ReadBackRecord.empty(CLUSTER_ID, store.uri, server), **fields)


def test_one_run_at_a_time_reads_back_and_others_need_not_wait(cluster, right):
    topic = f"{PROBE_TOPIC}1795816782-0123abcd"
    other = record_of(right, topic=topic, process=Process("host-2", 7, "boot/1/7"))
    key = keys.read_back(CLUSTER_ID)
    right.put_if_absent(key, other.encode())
    cluster.create_topic(topic, {})
    with pytest.raises(ReadBackHeldError, match=r"host-2 \(pid 7\)"):
        prover(cluster, right).prove(aiven(right))
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, right, prove=False).prove(aiven(right))
    assert topic in cluster.there
    assert right.get(key) == other.encode()
    # It was not heard of for too long.
    path = right.root / key
    modified = path.stat().st_mtime - STALE_AFTER_MS / 1000 - 1
    os.utime(path, (modified, modified))
    assert prover(cluster, right).prove(aiven(right)).evidence is EvidenceKind.READ_BACK
    assert left_of(cluster, right) == []


def test_record_that_another_run_replaced_is_not_overwritten(tmp_path):
    store = DirectoryStore(tmp_path)
    ours, theirs = (ReadBackStore(store, CLUSTER_ID, "s", process=Process("h", pid, "b/1/1")) for pid in (1, 2))
    assert ours.find() is None and theirs.find() is None
    ours.begin(f"{PROBE_TOPIC}1795816782-0123abcd")
    with pytest.raises(ReadBackHeldError):
        theirs.begin(f"{PROBE_TOPIC}1795816783-0123abcd")
    ours.renew()
    ours.keep("0" * 64)
    found = theirs.find()
    assert found is not None and (found.brokers, found.topic, found.process) == ("0" * 64, None, None)
    ours.keep("1" * 64)
    theirs.drop()
    assert ours.find() == structs.replace(found, brokers="1" * 64)
    ours.drop()
    assert ours.find() is None


@pytest.mark.parametrize("field", ["topic", "brokers", "clusterId"])
def test_record_of_a_read_back_is_read_strictly(field, tmp_path):
    empty = ReadBackRecord.empty(CLUSTER_ID, "s3://b/", "AWS")
    whole = structs.replace(empty, brokers="0" * 64, topic=f"{PROBE_TOPIC}1795816782-0123abcd", renewals=3)
    data = whole.encode()
    assert ReadBackRecord.decode(data, name="x") == whole
    text = data.decode()
    value = {"topic": whole.topic, "brokers": whole.brokers, "clusterId": CLUSTER_ID}[field]
    with pytest.raises(CorruptDataError, match="x: not a record of an earlier read-back"):
        ReadBackRecord.decode(text.replace(f'"{value}"', '["orders"]').encode(), name="x")
    if field == "topic":
        with pytest.raises(CorruptDataError):
            ReadBackRecord.decode(text.replace(value, "orders").encode(), name="x")


def test_damaged_record_proves_nothing_and_is_named_to_who_reads_back(cluster, right):
    right.put_if_absent(keys.read_back(CLUSTER_ID), b"{")
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, right, prove=False).prove(aiven(right))
    with pytest.raises(CorruptDataError, match="not a record of an earlier read-back"):
        prover(cluster, right).prove(aiven(right))


def test_segment_of_a_read_back_differs_from_the_local_log(cluster, right, tmp_path):
    """Else the broker's own copy would prove any location."""
    seen: list[bytes] = []

    def watch(what, action):
        if what == "fetch":
            seen.extend(
                store_log for key, store_log in objects(right).items() if PROBE_TOPIC in key and key.endswith(".log")
            )
        return action()

    prover(cluster.view(watch), right).prove(aiven(right))
    (topic,) = cluster.written
    assert seen and all(value not in seen[-1] for value in cluster.written[topic])
