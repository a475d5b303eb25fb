"""A broker with two data disks whose second one is tiered to S3 and then lost: what every restore begins with."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import replace_disk, segment_bases
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.reading import Record, read_all
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.topics import create_topic, create_topic_in, wait_for_leader
from tests.broker.harness.writing import Workload, segment_count, transaction_around, write_segments
from tests.reference.command import tiersnap

CUT_PRODUCER = "cut"  # of the transaction around the last boundary of `cut_topic`
LOADS = Workload(idempotent=4, transactional=2)
ONE_BATCH_EACH = Workload(idempotent=20, transactional=0, early=0)  # a round fills more than a segment
NO_TRANSACTIONS = Workload(idempotent=4, transactional=0, early=0)


@dataclass(frozen=True)
class Lost:
    """What was on the second disk.

    Attributes:
        disks: as the broker left them, the second disk still whole; to be copied, not used.
        topic: idempotent and transactional producers, the first 20 with one batch each, two leader epochs, and nothing
            open at the last boundary.
        cut_topic: a transaction lies around its last boundary, begun in a closed segment, committed in the active one.
        uncommitted, committed: every record that a consumer saw before, by topic.
    """

    disks: Disks
    remote: tuple[str, ...]
    topic: str
    cut_topic: str
    uncommitted: dict[str, list[Record]]
    committed: dict[str, list[Record]]

    @property
    def lost_disk(self) -> str:
        return self.disks.data[1]

    def end(self, topic: str) -> int:
        """Where the tier ends: the base offset of the active segment, which is never tiered."""
        return segment_bases(self.disks.partition(topic))[-1]

    def lose_disk(self, root: Path) -> Disks:
        """A copy of the disks whose second one is new and empty, under its old directory id."""
        disks = self.disks.copy_to(root)
        replace_disk(disks.log_dirs[1])
        return disks


def write_and_tier(root: Path, remote: tuple[str, ...]) -> Lost:
    """Write both topics, read them, stop, and tier the second disk to `remote` (the words of a URI and its options)."""
    disks = kraft_disks(root, CURRENT_VERSION, data=("d1", "d2"))
    broker = Broker(disks, CURRENT_VERSION)
    with broker:
        topic = create_topic_in(broker, disks.log_dirs[1], "ledger")
        cut_topic = create_topic_in(broker, disks.log_dirs[1], "cut")
        keep_next_off(broker, disks.log_dirs[1])
        write_segments(broker, topic, 2, ONE_BATCH_EACH, name="once-")
        write_segments(broker, topic, segment_count(broker.disks.partition(topic)) + 2, LOADS)
        write_segments(broker, cut_topic, 3, LOADS, name="c")
        # Without other transactions: on a busy machine the last boundary would cut one of them as well.
        with transaction_around(broker, cut_topic, name=CUT_PRODUCER):
            write_segments(broker, cut_topic, 5, NO_TRANSACTIONS, name="d")
    with broker.start():
        # A broker that starts again begins a leader epoch.
        wait_for_leader(broker, topic)
        for number, load in enumerate((LOADS, NO_TRANSACTIONS)):
            segments = segment_count(broker.disks.partition(topic)) + 1
            write_segments(broker, topic, segments, load, name=f"end{number}-")
        uncommitted = {name: read_all(broker, name) for name in (topic, cut_topic)}
        committed = {name: read_all(broker, name, isolation="read_committed") for name in (topic, cut_topic)}
    assert disks.partition("__transaction_state").parent == disks.log_dirs[0], "it outlives the second disk"
    ran = tiersnap(
        *("tier", disks.log_dirs[1], "--remote", *remote, "--topic", f"{topic}|{cut_topic}"),
        *("--expiration", "none", "--apply"),
    )
    assert ran.exit_code == 0, ran.err
    return Lost(disks, remote, topic, cut_topic, uncommitted, committed)


@dataclass
class FirstBatches:
    """What new producers heard of their first batches, by record key."""

    acknowledged: list[bytes] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # one a producer


def first_batches(broker: Broker, topic: str, *, producers: int, records: int = 10) -> FirstBatches:
    """Let idempotent producers, all new to the cluster, write one batch each."""
    heard = FirstBatches()
    errors: dict[int, KafkaError] = {}
    config = {
        "bootstrap.servers": broker.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 1000,  # flush ends it: one batch each
        "batch.num.messages": records,
        "retry.backoff.ms": 20,
    }
    silent = logging.getLogger("tests.silent")
    silent.propagate = False
    silent.addHandler(logging.NullHandler())
    writing = [Producer(config, logger=silent) for _ in range(producers)]
    for number, producer in enumerate(writing):

        def delivered(error: KafkaError | None, message: Message, number: int = number) -> None:
            if error:
                errors.setdefault(number, error)
            else:
                heard.acknowledged.append(message.key())

        for turn in range(records):
            producer.produce(topic, b"new", f"new-{number}-{turn}".encode(), partition=0, on_delivery=delivered)
    for producer in writing:
        with contextlib.suppress(KafkaException):  # a fatal error, which the callbacks tell as well
            producer.flush(20.0)
    heard.refused.extend(error.name() for error in errors.values())
    return heard


def keep_next_off(broker: Broker, log_dir: Path) -> None:
    """Let the broker place the next partition, for instance that of `__transaction_state`, in its other directory.

    It takes the one with fewer partitions, and among equals the first.
    """
    (other,) = (folder for folder in broker.disks.log_dirs if folder != log_dir)
    for number in range(10):
        if _partitions(log_dir) >= _partitions(other):
            return
        create_topic(broker, f"filler-{number}")
    raise AssertionError(f"{log_dir} never has as many partitions as {other}")


def _partitions(log_dir: Path) -> int:
    names = [path.name for path in log_dir.iterdir() if path.name.rpartition("-")[2].isdigit()]
    # The metadata log does not count when a broker looks for the emptier directory.
    return len(names) - ("__cluster_metadata-0" in names)
