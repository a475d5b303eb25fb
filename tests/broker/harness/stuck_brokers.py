"""Brokers in need: each is laid out as a person finds it, with what Kafka itself must say once it is cured."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.flaky_tier import FlakyTier
from tests.broker.harness.log_batches import Batch, last_batches
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, create_led_by, elect, leader_and_isr
from tests.broker.harness.pasting import Acts, Host
from tests.broker.harness.places import QUICK, Site, delete_local_files, is_readable, publish_unproven
from tests.broker.harness.raw_protocol import Resent, resend
from tests.broker.harness.reading import Record, read_all
from tests.broker.harness.scenarios import FAILING_INTERVAL_MS, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic, wait_for_leader
from tests.broker.harness.unblocking import make_stick
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, segment_count, write_segments
from tests.chaos.small_disk import SmallDisk

FEW = Workload(idempotent=2, transactional=0, early=0)
DRAINED = {"local.retention.bytes": "1"}
NO_EPOCHS = "segmentLeaderEpochs can not be null or empty"
MINUTES = 120.0


@dataclass(frozen=True)
class Stage:
    """A release, a folder, and what the test provides.

    Attributes:
        disks_of: lays a log with ten closed segments, that a release wrote.
        tier: remote storage whose copy task runs every so many milliseconds.
    """

    version: str
    root: Path
    disks_of: Callable[[str], Disks]
    tier: Callable[[int], LocalTier]


@dataclass
class Need:
    """A broker in need.

    Attributes:
        doctor: what the person types.
        by_hand: what the person does for a line that no command can do.
        filled: what the person writes in place of words that no command can know.
        disk: the small disk of its log directory, if it has one.
        before_check: lets the cured broker lead.
        before_more: mends what is no business of tiersnap, the storage manager, before the copy task must go on.
    """

    host: Host
    records: list[Record]
    last: Mapping[int, Batch]
    doctor: str = "tiersnap doctor"
    by_hand: Acts = field(default_factory=dict)
    filled: Mapping[str, str] = field(default_factory=dict)
    disk: SmallDisk | None = None
    before_check: Callable[[], object] = lambda: None
    before_more: Callable[[], object] = lambda: None

    @classmethod
    def of(cls, broker: Broker, root: Path) -> Need:
        """Return the need of a broker that runs, with its records and the last batch of each producer."""
        last = last_batches(broker.disks.partition(TOPIC))
        need = cls(Host(broker, root / "host"), read_all(broker, TOPIC), last)
        need.by_hand = {"stop the broker": broker.stop, "start the broker": broker.start}
        return need

    def assert_cured(self) -> None:
        """Local files drain, all records are read, no batch is taken twice, and the copy task goes on."""
        broker = self.host.broker
        tier, folder = broker.tier, broker.disks.partition(TOPIC)
        assert tier is not None
        wait_for_leader(broker, TOPIC)
        self.before_check()
        alter_topic(broker, TOPIC, DRAINED)
        wait_until(lambda: len(segment_bases(folder)) == 1, "local retention deletes closed segments", seconds=MINUTES)
        assert read_all(broker, TOPIC) == self.records
        assert resend(broker, TOPIC, self.last.values()) == Resent(duplicates=len(self.last))
        self.before_more()
        tiered = len(set(tier.complete_bases(TOPIC)))
        write_segments(broker, TOPIC, segment_count(folder) + 2, FEW, name="later-")
        wait_until(lambda: len(set(tier.complete_bases(TOPIC))) >= tiered + 2, "the copy task goes on", seconds=MINUTES)


@contextmanager
def missing_snapshot(stage: Stage) -> Iterator[Need]:
    """A closed segment lacks its snapshot; of a log that 2.7 wrote, all but the last ones do."""
    disks = stage.disks_of(stage.version)
    bases = segment_bases(disks.partition(TOPIC))
    if disks.mode == "kraft":
        drop_snapshot(disks.partition(TOPIC), bases[5])
    last = last_batches(disks.partition(TOPIC))
    with Broker(disks, stage.version, tier=stage.tier(FAILING_INTERVAL_MS), settings=QUICK) as broker:
        make_stick(broker, DRAINED)
        need = Need.of(broker, stage.root)
        need.last = last
        yield need


@contextmanager
def full_disk(stage: Stage) -> Iterator[Need]:
    """The same on a disk of which nothing is left; the broker still runs."""
    laid = stage.disks_of(stage.version)
    root = stage.root / "full"
    small = SmallDisk(root / "data", 64)
    assert small.is_small, "only who may mount gets a small disk"
    try:
        shutil.copytree(laid.log_dir, small.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".lock"))
        disks = Disks(root, laid.mode)
        drop_snapshot(disks.partition(TOPIC), segment_bases(disks.partition(TOPIC))[5])
        with Broker(disks, stage.version, tier=stage.tier(FAILING_INTERVAL_MS), settings=QUICK) as broker:
            make_stick(broker)
            need = Need.of(broker, stage.root)
            small.fill(left=400 << 10)
            need.disk = small
            need.by_hand = {"lower local.retention.ms": lambda: alter_topic(broker, TOPIC, DRAINED)}
            yield need
    finally:
        small.close()


@contextmanager
def full_disk_of_a_stopped_broker(stage: Stage) -> Iterator[Need]:
    """The broker stopped for want of room, and may not start: nothing of its disk is left."""
    with full_disk(stage) as need:
        broker, small = need.host.broker, need.disk
        assert small is not None
        broker.stop()
        small.fill(left=0)
        need.doctor = f"tiersnap doctor --server-properties {need.host.server_properties()}"
        need.by_hand = {"move other files away": small.empty, "start the broker": broker.start}
        yield need


@contextmanager
def hung_copy(stage: Stage) -> Iterator[Need]:
    """The storage manager does not return from a copy."""
    tier = FlakyTier(stage.root / "tier", version=stage.version)
    with Broker(kraft_disks(stage.root / "disks", stage.version), stage.version, tier=tier, settings=QUICK) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, 4, FEW)
        closed = segment_bases(broker.disks.partition(TOPIC))[:-1]
        wait_until(lambda: tier.complete_bases(TOPIC) == tuple(closed), "all is tiered")
        (tier.flags / "hang").touch()
        write_segments(broker, TOPIC, 6, FEW, name="behind-")
        need = Need.of(broker, stage.root)
        need.doctor = "tiersnap doctor --hung-after 1s"
        wait_until(lambda: need.host.type_in(need.doctor).exit_code == 4, "a copy hangs", seconds=60)
        (tier.flags / "hang").unlink()
        yield need


@contextmanager
def failing_copy_task(stage: Stage) -> Iterator[Need]:
    """The storage manager writes all objects of a segment, damaged, and then throws (KAFKA-19981)."""
    tier = FlakyTier(stage.root / "tier", 1000, version=stage.version)
    with Broker(kraft_disks(stage.root / "disks", stage.version), stage.version, tier=tier, settings=QUICK) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, 2, FEW)
        wait_until(lambda: len(tier.complete_bases(TOPIC)) == 1, "it is tiered")
        (tier.flags / "garble").touch()
        write_segments(broker, TOPIC, 4, FEW, name="behind-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) > 3, "attempts fail")
        need = Need.of(broker, stage.root)
        need.before_more = (tier.flags / "garble").unlink
        yield need


@contextmanager
def lost_leader_epochs(stage: Stage) -> Iterator[Need]:
    """leader-epoch-checkpoint lost its entries."""
    disks = stage.disks_of(stage.version)
    (disks.partition(TOPIC) / "leader-epoch-checkpoint").write_text("0\n0\n")
    with Broker(disks, stage.version, tier=stage.tier(FAILING_INTERVAL_MS), settings=QUICK) as broker:
        wait_for_leader(broker, TOPIC)
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        wait_until(lambda: broker.log.count(NO_EPOCHS) >= 2, "the copy task fails", seconds=60)
        need = Need.of(broker, stage.root)
        need.by_hand = {"stop broker 1": broker.stop, "start broker 1": broker.start}
        yield need


@contextmanager
def wrong_location(stage: Stage) -> Iterator[Need]:
    """Segments were uploaded to another location than brokers read, and published; the local files are deleted."""
    tier = stage.tier(500)
    with Broker(kraft_disks(stage.root / "disks", stage.version), stage.version, tier=tier, settings=QUICK) as broker:
        site, elsewhere = Site(broker, stage.root), stage.root / "elsewhere"
        site.write(TOPIC)
        need = Need.of(broker, stage.root)
        site.tier(TOPIC, elsewhere, site.layout)
        publish_unproven(site, elsewhere, TOPIC, site.layout)
        delete_local_files(site, TOPIC)
        assert not is_readable(broker, TOPIC)
        need.doctor = f"tiersnap doctor --remote {elsewhere}"
        need.filled = {"URI": str(elsewhere)}
        yield need


@contextmanager
def rebuilt_replica(stage: Stage) -> Iterator[Need]:
    """A broker lost the folder of a replica, and rebuilt it from remote storage; then it is to lead."""
    tier, check = stage.tier(500), {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
    disks = broker_disks(stage.root / "second", stage.version, 2)
    with Broker(kraft_disks(stage.root / "first", stage.version), stage.version, tier=tier, settings=check) as first:
        second = FurtherBroker(disks, stage.version, 2, first, tier, settings=check)
        with second:
            create_led_by(first, TOPIC, 2, TOPIC_SETTINGS)
        wait_until(lambda: leader_and_isr(first, TOPIC)[0] == 1, "the other leads", seconds=60)
        folder = first.disks.partition(TOPIC)
        write_segments(first, TOPIC, 4, Workload(idempotent=20, transactional=0, early=0, records=1), name="early-")
        last = last_batches(folder)
        write_segments(first, TOPIC, 8, Workload(idempotent=1, transactional=0, early=0), name="behind-")
        alter_topic(first, TOPIC, DRAINED)
        wait_until(lambda: len(segment_bases(folder)) == 1, "local files are deleted", seconds=60)
        shutil.rmtree(disks.partition(TOPIC))
        with second.start():
            wait_until(lambda: leader_and_isr(first, TOPIC)[1] == [1, 2], "it is in sync again", seconds=60)
            need = Need.of(second, stage.root)
            need.last = last
            need.by_hand = {"stop the broker": second.stop, "start the broker": second.start}
            need.before_check = lambda: elect(first, TOPIC, 2)
            yield need
