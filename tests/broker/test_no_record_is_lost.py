"""What consumers read before a command they read after it, byte for byte, whatever is damaged, doubled or cloned.

The tests of a release share one broker; each has a topic of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import google_crc32c
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshots_but_newest, file_at, segment_bases, snapshots
from tests.broker.harness.disks import backup_of, kraft_disks
from tests.broker.harness.flaky_tier import FlakyTier
from tests.broker.harness.log_batches import last_batches
from tests.broker.harness.places import COPYING_OFF, QUICK, Site, delete_local_files, files
from tests.broker.harness.raw_protocol import Resent, resend
from tests.broker.harness.reading import Record, read_all
from tests.broker.harness.releases import releases
from tests.broker.harness.remote_log_metadata import metadata_values, states
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, TieredSegment
from tests.broker.harness.topics import (
    SEGMENT_BYTES,
    alter_topic,
    create_topic,
    delete_records,
    last_stable,
    log_end,
    wait_for_leader,
)
from tests.broker.harness.unblocking import unblock
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, transaction_around, write_segments
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.fleet_run import Ran as Fleet
from tests.reference.fleet_run import Runner
from tiersnap.jobs.pipeline.before_spark import discover, facts_from_cluster
from tiersnap.jobs.pipeline.listing import NOTHING_STATED, StatedFacts
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate, decode
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, new_segment_id
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.replay.expiry import Scan
from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.broker

CLOSED = 4
FEW = Workload(idempotent=3, transactional=1, early=1)
SETTINGS = {
    **QUICK,
    # No log start is checkpointed: brokers up to 3.7 never do that for a tiered log, later ones after a minute.
    "log.flush.start.offset.checkpoint.interval.ms": "3600000",
    "log.flush.offset.checkpoint.interval.ms": "500",  # a start recovers the active segment alone
}
BATCH_START = struct.Struct(">qi")
OVERHEAD, HEADER = 12, 61


@pytest.fixture(scope="module", params=releases(CURRENT_VERSION))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    release, root = request.param, tmp_path_factory.mktemp("records")
    disks, tier = kraft_disks(root / "disks", release.version), release.tier(root / "tier")
    with Broker(disks, release.version, tier=tier, settings=SETTINGS) as broker:
        yield Site(broker, root)


def write(site: Site, topic: str) -> list[Record]:
    """A topic with closed segments that are not copied; returns its records."""
    create_topic(site.broker, topic, configs=COPYING_OFF)
    write_segments(site.broker, topic, CLOSED + 1, FEW, name=f"{topic}-")
    return read_all(site.broker, topic)


def copy_by_broker(site: Site, topic: str) -> Path:
    """Let the broker tier the closed segments and delete them here; returns a log directory that still has them."""
    backup = backup_of(site.broker.disks.log_dir, site.root / f"backup-{topic}")
    alter_topic(site.broker, topic, {"remote.log.copy.disable": "false"})
    wait_until(lambda: states(site.broker, topic)["COPY_SEGMENT_FINISHED"] == CLOSED, "it is tiered", seconds=30)
    delete_local_files(site, topic)
    return backup


def tiered(site: Site, topic: str) -> list[TieredSegment]:
    assert site.broker.tier is not None
    return site.broker.tier.segments(topic)


def is_read(site: Site, topic: str, records: list[Record]) -> bool:
    """Whether a consumer reads exactly these records."""
    try:
        return read_all(site.broker, topic) == records
    except AssertionError:
        return False


def mend(site: Site, topic: str, *words: str | Path) -> Ran:
    server = ("--bootstrap-server", site.broker.bootstrap)
    return tiersnap("mend", *server, "--remote", site.right, "--topic", topic, *words)


def actions(ran: Ran) -> list[tuple[str, str]]:
    return sorted((row["action"], row["outcome"]) for row in ran.rows)


def objects(site: Site) -> dict[str, bytes]:
    """The objects that brokers read; tiersnap has its claims beside them."""
    return {name: data for name, data in files(site.right).items() if f"{site.right}/claims/" not in name}


def batch_starts(log: bytes) -> Iterator[tuple[int, int]]:
    """Position and size of each batch."""
    position = 0
    while position < len(log):
        size = OVERHEAD + BATCH_START.unpack_from(log, position)[1]
        yield position, size
        position += size


def flipped(log: bytes) -> bytes:
    """Change one bit of a value in the largest batch."""
    position, _ = max(batch_starts(log), key=lambda batch: batch[1])
    data = bytearray(log)
    data[position + HEADER + 200] ^= 1
    return bytes(data)


def forged(log: bytes) -> bytes:
    """Move each batch by a millisecond, with a right CRC: the log of another history."""
    data = bytearray(log)
    for position, size in batch_starts(log):
        for at in (position + 27, position + 35):
            struct.pack_into(">q", data, at, struct.unpack_from(">q", data, at)[0] + 1)
        struct.pack_into(">I", data, position + 17, google_crc32c.value(bytes(data[position + 21 : position + size])))
    return bytes(data)


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


def finish_twice(site: Site, topic: str, segment: TieredSegment) -> TieredSegment:
    """Finish a segment once more under another id, as two copy attempts do; brokers read the new one."""
    cluster = Cluster(site.broker.bootstrap)
    records = [decode(value) for value in metadata_values(site.broker)]
    (old,) = (
        each.metadata
        for each in records
        if isinstance(each, SegmentRecord) and each.metadata.id.segment_id == segment.segment_id
    )
    new = replace(old, id=replace(old.id, segment_id=new_segment_id()))
    for path in segment.files.values():
        names = (segment.segment_id, new.id.segment_id)
        data = path.read_bytes()
        path.with_name(path.name.replace(*names)).write_bytes(
            data.replace(*map(str.encode, names)) if path.suffix == ".rsm-manifest" else data
        )
    at = new.id.topic_id_partition
    told = (SegmentRecord(new), SegmentUpdate(new.id, 1, new.event_timestamp, SegmentState.COPY_SEGMENT_FINISHED))
    MetadataTopic.of(cluster).publish((at, each) for each in told)
    (made,) = (each for each in tiered(site, topic) if each.segment_id == new.id.segment_id)
    return made


def offsets_for_times(site: Site, topic: str, times: list[int]) -> list[int]:
    settings = {"bootstrap.servers": site.broker.bootstrap, "group.id": "nobody", "log_level": 0}
    consumer = Consumer(settings)
    try:
        found = [consumer.offsets_for_times([TopicPartition(topic, 0, time)], 30)[0] for time in times]
        assert [each.error for each in found] == [None] * len(times)
        return [each.offset for each in found]
    finally:
        consumer.close()


def test_mend_replaces_wrong_segments_and_deletes_no_sound_copy(site):
    """The broker uploaded one segment with a broken time index; of another the copy that it reads is damaged."""
    topic = "doubled"
    records = write(site, topic)
    folder = site.broker.disks.partition(topic)
    bases = segment_bases(folder)
    ends = {*bases[:-1], *(base - 1 for base in bases[1:])}
    times = [each.timestamp for each in records if each.offset in ends]
    found = offsets_for_times(site, topic, times)
    site.broker.stop()
    change(file_at(folder, bases[1], ".timeindex"), lambda times: bytes(len(times)))
    site.broker.start()
    copy_by_broker(site, topic)
    assert offsets_for_times(site, topic, times) != found, "the record has the largest timestamp of the time index"

    sound = tiered(site, topic)[2]
    read = finish_twice(site, topic, sound)
    assert is_read(site, topic, records)
    place = ("--bootstrap-server", site.broker.bootstrap, "--remote", site.right)
    doctor = tiersnap("doctor", *place)
    assert (doctor.exit_code, json.loads(doctor.out)["result"]["next"]) == (0, [])
    change(read.files[".log"], flipped)
    assert not is_read(site, topic, records)

    ran = mend(site, topic, "--depth", "full", "--delete-bad", "--apply")
    assert_said(ran, 0)
    assert actions(ran) == [("DELETE", "MENDED")] * 3 + [("REPLACE", "MENDED")] * 2
    assert is_read(site, topic, records)
    assert offsets_for_times(site, topic, times) == found
    assert states(site.broker, topic)["DELETE_SEGMENT_FINISHED"] == 3


def test_mend_puts_back_the_log_alone_that_was_lost(site):
    """A backup with other bytes is refused, as is a log directory whose log went its own way."""
    topic = "lost"
    records = write(site, topic)
    right = copy_by_broker(site, topic)
    bases = segment_bases(right / f"{topic}-0")
    lost, other = (each.files[".log"] for each in tiered(site, topic)[1:3])
    whole = lost.read_bytes()
    backup, clone = site.root / "backup", site.root / "clone"
    shutil.copytree(site.right, backup)
    shutil.copytree(right, clone)
    for base in bases[1:-1]:
        change(file_at(clone / f"{topic}-0", base, ".log"), forged)
    before = objects(site)
    ran = tiersnap("tier", clone, "--remote", site.right, "--layout", site.layout, "--topic", topic, "--apply")
    assert_said(ran, 5)
    assert objects(site) == before

    lost.unlink()
    before = objects(site)
    copy = backup / lost.relative_to(site.right)
    for wrong in (bytes(len(whole)), other.read_bytes(), flipped(whole), whole[:-1]):
        copy.write_bytes(wrong)
        ran = mend(site, topic, "--from", backup, "--apply")
        assert (ran.exit_code, actions(ran)) == (5, [("NONE", "FAILED")]), ran.err
    ran = mend(site, topic, clone, "--apply")
    assert (ran.exit_code, set(actions(ran))) == (4, {("NONE", "FAILED")}), ran.err
    assert objects(site) == before

    ran = mend(site, topic, "--from", backup, right, "--apply")
    assert_said(ran, 0)
    assert actions(ran) == [("REBUILD", "MENDED")], "the log goes before the backup, which is wrong still"
    assert lost.read_bytes() == whole
    assert is_read(site, topic, records)


def test_tier_publishes_the_log_of_the_leader_alone(site):
    """From copies of its disk, on which no broker runs; one of them went its own way before anything was tiered."""

    def tier_copy(topic: str, log_dir: Path) -> Ran:
        remote = ("--remote", site.right, "--layout", site.layout, "--topic", topic)
        return tiersnap("tier", log_dir, *remote, "--bootstrap-server", site.broker.bootstrap, "--apply")

    copies = {topic: checkpointed(site, topic_with_segments(site, topic, CLOSED + 1)) for topic in ("copied", "cloned")}
    records = read_all(site.broker, "copied")
    for path in (copies["cloned"] / "cloned-0").glob("*.log"):
        change(path, forged)
    for path in (copies["cloned"] / "cloned-0").glob("*.snapshot"):
        path.unlink()
    assert_said(tier_copy("cloned", copies["cloned"]), 5, "differs from the record of the leader of cloned-0")
    assert states(site.broker, "cloned") == {}

    ran = tier_copy("copied", copies["copied"])
    assert_said(ran, 0, f"published {CLOSED} segments")
    assert ran.row(partition="copied-0")["verdicts"] == {"TIERED": CLOSED, "ACTIVE_SEGMENT": 1}
    delete_local_files(site, "copied")
    assert is_read(site, "copied", records)


def tier(site: Site, topic: str) -> Ran:
    """Tier a backup of the log directory: no broker runs beside it, and no records are read."""
    log_dir = backup_of(site.broker.disks.log_dir, site.root / f"backup-{topic}")
    for folder in log_dir.glob("__remote_log_metadata-*"):
        shutil.rmtree(folder)
    return tiersnap("tier", log_dir, "--remote", site.right, "--layout", site.layout, "--topic", topic, "--apply")


def test_tier_keeps_what_it_uploaded_until_brokers_read_it(site):
    """The log starts inside the first segment, one segment is lost, and an object of a published one is longer."""
    topic, start = "own", 15
    records = write(site, topic)
    delete_records(site.broker, topic, start)
    closed = {"UPLOADED": CLOSED, "ACTIVE_SEGMENT": 1}
    wait_until(lambda: tier(site, topic).row(partition=f"{topic}-0")["verdicts"] == closed, "it is tiered", every=1)
    again = tier(site, topic)
    assert (again.exit_code, again.rows[0]["verdicts"]) == (0, closed), again.err

    for path in tiered(site, topic)[1].files.values():
        path.unlink()
    again = tier(site, topic)
    assert (again.exit_code, again.rows[0]["verdicts"]) == (0, closed), again.err
    assert len(tiered(site, topic)) == CLOSED
    assert_said(site.publish(topic, site.right, "--apply"), 0)

    for suffix in (".log", ".indexes"):
        path = tiered(site, topic)[2].files.get(suffix)
        if path:
            change(path, lambda data: data + b"?")
    before = objects(site)
    again = tier(site, topic)
    assert (again.exit_code, again.rows[0]["verdicts"]) == (0, closed), again.err
    assert before.items() <= objects(site).items(), "records may name it"
    delete_local_files(site, topic)
    assert read_all(site.broker, topic, start=start) == [each for each in records if each.offset >= start]


def test_window_tiers_nothing_of_an_open_transaction_that_began_before_it(site, tmp_path):
    """No other transaction may be open at the end of a segment: the window would not show it, as `publish` refuses."""
    topic, isolation = "open", "read_committed"
    alone = replace(FEW, transactional=0)
    with transaction_around(site.broker, topic_with_segments(site, topic, 2, alone), name="open", end="abort"):
        write_segments(site.broker, topic, CLOSED + 1, alone, name="meanwhile-")
        stable, records = last_stable(site.broker, topic), read_all(site.broker, topic)
        bases = segment_bases(site.broker.disks.partition(topic))
        log_dir = checkpointed(site, topic)
        told = told_by(site, log_dir, topic)
        assert told.leader_stable == stable < bases[-2]

        ran = window(site, tmp_path / "shown", log_dir, topic, records)
        assert ran.listed[0]["window_offset"] > stable
        assert tiered_by(ran) == [base for base, end in pairwise(bases) if end <= stable], "snapshots name it"
        drop_snapshots_but_newest(log_dir / f"{topic}-0", 0)
        for known in (NOTHING_STATED, told):
            ran = window(site, tmp_path / "bare", log_dir, topic, records, told=known)
            assert (ran.verdicts, ran.segments_uploaded) == ({"ACTIVE_SEGMENT": 1, "UNKNOWN_TRANSACTIONS": CLOSED}, 0)
    committed = read_all(site.broker, topic, isolation=isolation)
    records = read_all(site.broker, topic)
    log_dir = checkpointed(site, topic)
    drop_snapshots_but_newest(log_dir / f"{topic}-0", 0)
    ran = window(site, site.right, log_dir, topic, records, told=told_by(site, log_dir, topic))
    assert tiered_by(ran) == segment_bases(log_dir / f"{topic}-0")[:-1], "its marker is in the window"
    assert_said(site.publish(topic, site.right, "--apply"), 5, "producers in the log")
    now = 1000 * (records[-1].timestamp // 1000 + 1)
    forgotten = ("--now", utc(now) or "", "--producer-expiration", f"{now - since(records)}ms")
    assert_said(site.publish(topic, site.right, *forgotten, "--apply"), 0)
    delete_local_files(site, topic)
    assert read_all(site.broker, topic, isolation=isolation) == committed
    assert is_read(site, topic, records)


def topic_with_segments(site: Site, topic: str, segments: int, workload: Workload = FEW) -> str:
    create_topic(site.broker, topic, configs=COPYING_OFF)
    write_segments(site.broker, topic, segments, workload, name=f"{topic}-")
    return topic


def checkpointed(site: Site, topic: str) -> Path:
    """A copy of the log directory whose checkpoint has the high watermark, which brokers write every five seconds."""
    checkpoint = site.broker.disks.log_dir / "replication-offset-checkpoint"

    def is_checkpointed() -> bool:
        """Whether it has the log end of now: a marker of the last transaction may follow the records."""
        return f"{topic} 0 {log_end(site.broker, topic)}" in checkpoint.read_text().splitlines()

    wait_until(is_checkpointed, "the high watermark is checkpointed", seconds=60)
    return backup_of(site.broker.disks.log_dir, site.root / f"backup-{topic}")


def told_by(site: Site, log_dir: Path, topic: str) -> StatedFacts:
    """What the cluster tells a run."""
    found = discover([str(log_dir)], re.compile(topic))
    return facts_from_cluster(Cluster(site.broker.bootstrap), found, {}, is_bounded=True)[f"{topic}-0"]


def window(site: Site, remote: Path, log_dir: Path, topic: str, records: list[Record], **told: StatedFacts) -> Fleet:
    """A run whose window begins with the last records."""
    last = records[-1].timestamp
    runner = Runner(remote.with_name(f"{remote.name}-{topic}"), log_dir, str(remote), open_layout(site.layout))
    times = {"as_of": None, "now": last + 1, "expiration": last + 1 - since(records)}
    return runner(scan=Scan.WINDOW, topic=re.compile(topic), **times, **told)


def since(records: list[Record]) -> int:
    """The time that a window begins with: that of a record among the last tenth."""
    return next(each.timestamp for each in records if each.offset >= 0.9 * records[-1].offset)


def tiered_by(ran: Fleet) -> list[int]:
    return sorted(row["base_offset"] for row in ran.readiness if row["verdict"] in ("UPLOADED", "TIERED"))


def test_no_batch_is_appended_twice_after_repair_of_a_log_that_begins_in_remote_storage(site):
    """Nothing on the disk of a killed broker tells that the log begins below its first file."""
    topic = "began"
    create_topic(site.broker, topic, configs=COPYING_OFF)
    write_segments(site.broker, topic, 7, Workload(idempotent=6, transactional=1, early=4), name=f"{topic}-")
    records, disks = read_all(site.broker, topic), site.broker.disks
    last = last_batches(disks.partition(topic))
    configs = {"remote.log.copy.disable": "false", "local.retention.bytes": str(SEGMENT_BYTES)}
    alter_topic(site.broker, topic, configs)
    folder = disks.partition(topic)
    wait_until(lambda: len(segment_bases(folder)) <= 3, "local retention passed", seconds=30)
    site.broker.kill()
    bases = segment_bases(folder)
    assert len(bases) > 1
    assert sum(batch.last_offset < bases[0] for batch in last.values()) >= 4, "remote storage alone has them"
    assert f"{topic} 0 " not in (disks.log_dir / "log-start-offset-checkpoint").read_text()

    drop_snapshots_but_newest(folder, 0)
    words = (disks.log_dir, "--topic", topic)
    assert_said(tiersnap("scan", *words), 4, f"log start of {topic}-0 unknown")
    ran = tiersnap("repair", *words, "--apply")
    assert_said(ran, 4, f"log start of {topic}-0 unknown")
    assert snapshots(folder) == {}
    ran = tiersnap("repair", *words, "--remote", site.right, "--layout", site.layout, "--apply")
    assert_said(ran, 0)
    site.broker.start()
    wait_for_leader(site.broker, topic)
    assert resend(site.broker, topic, last.values()) == Resent(duplicates=len(last))
    assert is_read(site, topic, records)


@pytest.mark.parametrize("release", [each for each in releases(CURRENT_VERSION) if not each.id.endswith("aiven")])
@pytest.mark.parametrize("flag", ["garble", pytest.param("throw", marks=pytest.mark.nightly)])
def test_unblock_finishes_no_attempt_that_its_storage_manager_failed(release, tmp_path, capsys, flag):
    """It throws after all objects exist: damaged ones (KAFKA-19981), or such that the broker cannot delete either."""
    tier = FlakyTier(tmp_path / "tier", 1000, version=release.version)
    disks = kraft_disks(tmp_path / "disks", release.version)
    with Broker(disks, release.version, tier=tier, settings=SETTINGS) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, 2, FEW)
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 1, "it is tiered")
        (tier.flags / flag).touch()
        write_segments(broker, TOPIC, 4, FEW, name="behind-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) > 2, "attempts fail")
        bases, records = segment_bases(disks.partition(TOPIC)), read_all(broker, TOPIC)

        def freed() -> bool:
            code, rows = unblock(broker, capsys, "--unproven", "--apply")
            assert code in (ExitCode.OK, ExitCode.TRANSIENT), str(rows)  # a copy was under way: run it again
            return code == ExitCode.OK and [row["outcome"] for row in rows] == ["FREED"]

        wait_until(freed, "it is freed", seconds=60)
        alter_topic(broker, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: segment_bases(disks.partition(TOPIC)) == bases[3:], "local files are deleted", seconds=60)
        assert read_all(broker, TOPIC) == records
