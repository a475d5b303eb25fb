"""`tiersnap transactions` and `producers` print, from the segments, what kafka-transactions.sh prints of the broker."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.raw_protocol import Connection, produce
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.topics import create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import SECONDS, Workload, transaction_around, write_segments
from tests.broker.oracle.transactions import HOST_AND_PORT, TOOLS_VERSION, kafka_transactions, rows
from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tiersnap.snapshot.exactly_once.transactions.transaction_log import read_transaction_log
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.records import SegmentRecords

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION, TOOLS_VERSION)]

PARTITIONS = 3
# Without the check that brokers have since 3.6, as in logs that were written before.
SETTINGS = {
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.partition.verification.enable": "false",
}
SILENT_MS = 20 * 60_000
NAMES = ("polygenelubricants", "tx-é", "tx-😀", "a", "app-1_12", *(f"worker-{number}" for number in range(8)))
NOBODY = 990_001
CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Cluster:
    """A running broker with transactions in every state that lasts."""

    broker: Broker
    log_dir: Path

    def ours(self, *words: str | Path) -> str:
        """Standard output of `tiersnap`, with the text of Kafka's tool."""
        command, *rest = words
        return tiersnap(*shlex.split(str(command)), self.log_dir, *rest, "--output", "kafka", output="table").out


def hang(broker: Broker, topic: str, producer_id: int, *, partition: int = 0, epoch: int = 0) -> None:
    """One transactional record that no coordinator knows of, of a producer that has been silent ever since."""
    silent_since = time.time_ns() // 1_000_000 - SILENT_MS
    batch = lb.data_batch(0, 1, producer_id, epoch, 0, transactional=True, timestamp=silent_since, leader_epoch=-1)
    with Connection(broker) as connection:
        error, _ = produce(connection, topic, partition, batch, transactional_id="nobody")
    assert error == 0


def producer_id_of(broker: Broker, transactional_id: str) -> int:
    described = rows(kafka_transactions(broker, "describe", "--transactional-id", transactional_id))
    return int(described[0]["ProducerId"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Ended and open transactions, three that hang, and ids whose names are hard to hash."""
    disks = kraft_disks(tmp_path_factory.mktemp("transactions") / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, settings=SETTINGS) as broker:
        create_topic(broker, "orders", partitions=2)
        create_topic(broker, "late")
        write_segments(broker, "orders", 3, Workload(idempotent=1, transactional=2, records=5))
        for name in NAMES:
            Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name}).init_transactions(SECONDS)
        wait_until(lambda: "Prepare" not in kafka_transactions(broker, "list"), "transactions have ended")
        hang(broker, "orders", NOBODY)
        hang(broker, "orders", NOBODY + 1, partition=1)
        # Of a transactional id that is not in a transaction, and so has no part in this partition.
        hang(broker, "late", producer_id_of(broker, "a"))
        with transaction_around(broker, "late", name="open", end="leave"):
            yield Cluster(broker, disks.log_dir)


@pytest.mark.parametrize(
    ("theirs", "mine", "count"),
    [
        (("--broker-id", "1"), (), 3),
        (("--topic", "orders"), ("--topic", "orders"), 2),
        (("--topic", "orders", "--partition", "1"), ("--partition", "orders-1"), 1),
        (
            ("--topic", "late", "--max-transaction-timeout", "0"),
            ("--topic", "late", "--max-transaction-timeout", "0ms"),
            1,
        ),
        (("--broker-id", "1", "--max-transaction-timeout", "120"), ("--max-transaction-timeout", "2h"), 0),
    ],
)
def test_find_hanging_prints_what_the_tool_prints(cluster: Cluster, theirs, mine, count: int) -> None:
    before = after = ""
    while not before or before != after:  # a minute has passed meanwhile, which both count
        before = cluster.ours("transactions find-hanging", *mine)
        expected = kafka_transactions(cluster.broker, "find-hanging", *theirs)
        after = cluster.ours("transactions find-hanging", *mine)
    assert before.splitlines()[0] == expected.splitlines()[0]
    assert sorted(before.splitlines()) == sorted(expected.splitlines())
    assert len(rows(before)) >= count
    assert bool(rows(before)) == bool(count)


def test_list_and_describe_say_of_every_id_what_the_tool_says(cluster: Cluster) -> None:
    expected, observed = rows(kafka_transactions(cluster.broker, "list")), rows(cluster.ours("transactions list"))
    assert len(expected) >= len(NAMES) + 3
    assert {each.pop("Coordinator") for each in expected} == {"1"}
    assert {each.pop("Coordinator") for each in observed} == {f"__transaction_state-{n}" for n in range(PARTITIONS)}
    assert sorted(map(sorted, map(dict.items, observed))) == sorted(map(sorted, map(dict.items, expected)))
    for name in ("a", "tx-😀", *(row["TransactionalId"] for row in expected if row["TransactionState"] == "Ongoing")):
        (theirs,) = rows(kafka_transactions(cluster.broker, "describe", "--transactional-id", name))
        (ours,) = rows(cluster.ours("transactions describe", "--transactional-id", name))
        for row in (theirs, ours):
            del row["CoordinatorId"], row["TransactionDurationMs"]
        assert ours == theirs


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("orders", 1), ("late", 0)])
def test_producers_prints_what_describe_producers_prints(cluster: Cluster, topic: str, partition: int) -> None:
    words = ("--topic", topic, "--partition", str(partition))
    expected = kafka_transactions(cluster.broker, "describe-producers", *words).splitlines()
    observed = cluster.ours("producers", "--partition", f"{topic}-{partition}").splitlines()
    assert observed[0] == expected[0]
    assert sorted(observed) == sorted(expected)
    assert len(observed) > 1


def test_every_id_lies_where_the_broker_put_it(cluster: Cluster) -> None:
    log = read_transaction_log([open_log_dir(str(cluster.log_dir))])
    assert log.states.found_in.keys() >= set(NAMES)
    assert (log.partition_count, log.is_complete, log.findings) == (PARTITIONS, True, ())


def test_records_that_a_broker_compressed_are_read(cluster: Cluster) -> None:
    log_dir, count = open_log_dir(str(cluster.log_dir)), 300
    for codec in CODECS:
        create_topic(cluster.broker, codec, configs={"compression.type": codec})
        producer = Producer({"bootstrap.servers": cluster.broker.bootstrap, "linger.ms": 100})
        for number in range(count):
            producer.produce(codec, b"value %d " % number * 20, b"key %d" % number)
        assert producer.flush(SECONDS) == 0
        log_dir = open_log_dir(str(cluster.log_dir))
        (partition,) = (each for each in log_dir.partitions() if each.topic == codec)
        segments = [SegmentRecords(log_dir.filesystem, segment) for segment in partition.segments]
        read = [(record.offset, record.key, record.value) for records in segments for record in records]
        assert read == [(number, b"key %d" % number, b"value %d " % number * 20) for number in range(count)]
        assert [records.findings for records in segments] == [[] for _ in segments]


def test_the_command_that_is_named_aborts_the_transaction(cluster: Cluster) -> None:
    create_topic(cluster.broker, "aborted", partitions=2)
    for partition in range(2):
        hang(cluster.broker, "aborted", NOBODY + 10 + partition, partition=partition)
    words = ("transactions", "find-hanging", cluster.log_dir, "--topic", "aborted")
    hanging = tiersnap(*words)
    assert hanging.exit_code == 4
    commands = [hanging.row(partition=0)["abort_command"], hanging.row(partition=1)["abort_command_before_3_0"]]
    for command in commands:
        tool, server, address, *rest = shlex.split(command)
        assert (tool, server, address) == ("kafka-transactions.sh", "--bootstrap-server", HOST_AND_PORT)
        kafka_transactions(cluster.broker, *rest)
    assert wait_until(lambda: tiersnap(*words).rows == [], "the markers are in the log", seconds=SECONDS)
    assert rows(kafka_transactions(cluster.broker, "find-hanging", "--topic", "aborted")) == []
