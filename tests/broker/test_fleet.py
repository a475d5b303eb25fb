"""`tiersnap run` over the disks of real brokers: one run, and local retention deletes the files on every leader."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, drop_snapshots_but_newest, segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks
from tests.broker.harness.places import QUICK
from tests.broker.harness.reading import read_all
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, NO_SNAPSHOT, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import SECONDS, SEGMENT_BYTES, admin_client, alter_topic
from tests.broker.harness.unblocking import make_stick
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, write_segments

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

NODES = (1, 2, 3)
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]  # of each partition, the leader first
CLOSED = 4
FEW = Workload(idempotent=3, transactional=1, early=1)


@dataclass(frozen=True)
class Ran:
    """A run: its exit code, segments by verdict, and messages."""

    exit_code: int
    verdicts: dict[str, int]
    err: str


def run(root: Path, brokers: list[Broker], *words: str) -> Ran:
    """Run `tiersnap run` over the disks of brokers in a process of its own."""
    first = brokers[0]
    assert first.tier is not None
    command = [sys.executable, "-m", "tests.reference.tiersnap", "--output", "json", "run", "--topic", TOPIC]
    for broker in brokers:
        command += ["--source", str(broker.disks.log_dir)]
    command += ["--remote", str(first.tier.directory), "--layout", first.tier.layout]
    command += ["--bootstrap-server", first.bootstrap]
    command += ["--warehouse", str(root / "warehouse"), "--report", str(root / "report"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout, ran.stderr
    rows = json.loads(ran.stdout)["result"]["rows"]
    return Ran(ran.returncode, {row["verdict"]: row["segments"] for row in rows}, ran.stderr)


@contextmanager
def cluster(root: Path, tier: LocalTier) -> Iterator[list[Broker]]:
    """Three brokers that run; the first one is also the controller, and starts first and ends last."""
    folders = [root / f"broker-{node}" for node in NODES]
    first = Broker(kraft_disks(folders[0], CURRENT_VERSION), CURRENT_VERSION, tier=tier, settings=QUICK)
    with ExitStack() as started:
        brokers = [started.enter_context(first)]
        for node in NODES[1:]:
            disks = broker_disks(folders[node - 1], CURRENT_VERSION, node)
            brokers.append(
                started.enter_context(FurtherBroker(disks, CURRENT_VERSION, node, first, tier, settings=QUICK))
            )
        yield brokers


def create(first: Broker) -> None:
    """Create a topic that is not tiered, a replica of each of its partitions on each broker."""
    config = {"internal.segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
    topic = NewTopic(TOPIC, num_partitions=len(REPLICAS), replica_assignment=REPLICAS, config=config)
    admin = admin_client(first)
    admin.create_topics([topic])[TOPIC].result(SECONDS)
    wait_for_replicas(first)


def wait_for_replicas(first: Broker) -> None:
    """Wait until all replicas are in sync."""

    def are_in_sync() -> bool:
        known = admin_client(first).list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        return len(known) == len(REPLICAS) and all(sorted(each.isrs) == list(NODES) for each in known.values())

    wait_until(are_in_sync, "all replicas are in sync", seconds=60)


def elect_preferred(first: Broker) -> None:
    """Let each broker lead one partition."""
    wait_for_replicas(first)
    admin = admin_client(first)
    numbers = range(len(REPLICAS))
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, each) for each in numbers]).result(SECONDS)

    def leaders() -> list[int]:
        known = admin_client(first).list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        return [known[each].leader for each in numbers]

    wait_until(lambda: leaders() == list(NODES), "each broker leads one partition", seconds=60)


def test_one_run_over_three_brokers_ends_with_free_disks_of_all_leaders(tmp_path):
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with cluster(tmp_path, tier) as brokers:
        first, numbers = brokers[0], range(len(REPLICAS))
        create(first)
        for number, broker in enumerate(brokers):
            write_segments(broker, TOPIC, CLOSED + 1, FEW, partition=number, name=f"p{number}-")
        records = [read_all(first, TOPIC, partition=number) for number in numbers]
        for broker in reversed(brokers):
            broker.stop()
        for broker in brokers:
            for number in numbers:
                drop_snapshots_but_newest(broker.disks.partition(TOPIC, number), 2)
        for broker in brokers:
            broker.start()
        elect_preferred(first)
        folders = [broker.disks.partition(TOPIC, number) for number, broker in enumerate(brokers)]
        bases = [segment_bases(folder) for folder in folders]
        alter_topic(first, TOPIC, {**TOPIC_SETTINGS, "local.retention.bytes": "1"})
        for broker in brokers:
            wait_until(lambda at=broker: at.log.count(NO_SNAPSHOT) >= 2, "its copy task fails", seconds=60)

        ran = run(tmp_path, brokers, "--apply")

        assert ran.exit_code == 0, ran.err
        assert ran.verdicts == {"TIERED": sum(len(each) - 1 for each in bases), "ACTIVE_SEGMENT": len(bases)}
        for folder, each in zip(folders, bases, strict=True):
            wait_until(lambda at=folder, end=each[-1:]: segment_bases(at) == end, f"{folder}: files are deleted")
        assert [read_all(first, TOPIC, partition=number) for number in numbers] == records


def test_run_reads_the_records_of_the_cluster_in_its_tasks(current_disks, copy_of, tmp_path):
    """Objects alone would make the broker's segments IN_REMOTE, and ours UPLOADED for ever."""
    disks = copy_of(current_disks)
    bases = segment_bases(disks.partition(TOPIC))
    drop_snapshot(disks.partition(TOPIC), bases[5])
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK) as broker:
        make_stick(broker)
        planned = run(tmp_path, [broker])
        waiting = {"MISSING_SNAPSHOT": 1, "GAP_BEFORE": 5}
        assert planned.verdicts == {"TIERED": 4, **waiting, "ACTIVE_SEGMENT": 1}, planned.err
        uploaded = run(tmp_path, [broker], "--no-publish", "--apply")
        assert uploaded.verdicts == {"TIERED": 4, "UPLOADED": 6, "ACTIVE_SEGMENT": 1}, uploaded.err
        assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 4
        done = run(tmp_path, [broker], "--apply")
        assert (done.exit_code, done.verdicts) == (0, {"TIERED": 10, "ACTIVE_SEGMENT": 1}), done.err
        again = run(tmp_path, [broker], "--apply")
        assert (again.exit_code, again.verdicts) == (0, done.verdicts), again.err
        assert "nothing to do" in again.err
        assert Counter(tier.complete_bases(TOPIC)) == Counter(bases[:10]), "none twice"
