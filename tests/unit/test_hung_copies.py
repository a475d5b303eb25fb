"""A copy that hangs is told by its records from a slow one, from those of leaders that died, and from a fail-over."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.logs import PARTITION as PARTITION_OF_PLACE
from tests.protocol.situations import Place, found
from tests.reference.model_cluster import CLUSTER_ID
from tests.reference.prometheus_text import parse as parse_metrics
from tests.reference.remote_segments import PARTITION, remote_segment
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.main import run
from tiersnap.remote_storage.cluster.hung_copies import (
    HungCopy,
    HungLimit,
    copied_twice,
    find_hung,
    hung_copy,
    remote_end,
)
from tiersnap.remote_storage.errors import LeaderEpochLineageError, UnknownTopicError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.unit

STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED
MINUTE = 60_000
LIMIT = 30 * MINUTE


@dataclass
class Copying:
    """Copy tasks of brokers that lead one after another, and the records that they write.

    Attributes:
        under_way: the copy that the present leader is at, by what the tasks do; None while it is at none.
    """

    leader: int = 1
    now: int = 1_795_264_963_642
    next: int = 0
    cache: MetadataCache = field(default_factory=MetadataCache)
    under_way: RemoteLogSegmentMetadata | None = None
    took: list[int] = field(default_factory=list)

    def begin(self) -> None:
        begun = remote_segment(self.next, self.next + 9, ((0, self.next),), STARTED, event_timestamp=self.now)
        self.under_way = replace(begun, broker_id=self.leader)
        assert self.cache.apply(SegmentRecord(self.under_way))

    def tell(self, segment: RemoteLogSegmentMetadata, *states: SegmentState) -> None:
        for state in states:
            assert self.cache.apply(SegmentUpdate(segment.id, self.leader, self.now, state))

    def finish(self, after: int) -> None:
        assert self.under_way is not None
        self.now += after
        self.tell(self.under_way, FINISHED)
        self.took.append(after)
        self.next, self.under_way = self.next + 10, None

    def fail(self, after: int) -> None:
        """An error: since 3.9 the broker deletes what there is of the attempt, and begins anew."""
        assert self.under_way is not None
        self.now += after
        self.tell(self.under_way, DELETING, DELETED)
        self.under_way = None

    def die(self, after: int) -> None:
        """Another broker leads; the attempt stays as it is."""
        self.now += after
        self.leader, self.under_way = 3 - self.leader, None

    def retain(self) -> None:
        """Retention deletes the oldest segment."""
        finished = next(self.cache.in_state(PARTITION, FINISHED), None)
        if finished is not None:
            self.took.pop(0)
            self.tell(finished, DELETING, DELETED)

    def hung(self, *, after: int = LIMIT) -> HungCopy | None:
        return hung_copy(self.cache, PARTITION, self.leader, self.next, HungLimit(self.now, after))


@given(st.integers(0, 1 << 32).map(random.Random))  # st.randoms prefers small numbers: few ages above the limit
def test_hung_copy_is_the_one_that_its_leader_is_at_for_too_long(choose: random.Random) -> None:
    copying = Copying()
    for _ in range(choose.randrange(12)):
        copying.begin()
        step = choose.choice([copying.finish, copying.finish, copying.fail, copying.die])
        step(choose.randrange(1, choose.choice([MINUTE, 20 * MINUTE, 100 * MINUTE])))
        if choose.random() < 0.2:
            copying.retain()
    if choose.random() < 0.7:
        copying.begin()
    if choose.random() < 0.2:
        copying.retain()
    age = choose.randrange(600 * MINUTE)
    copying.now += age
    took = sorted(copying.took)
    middle = took[(len(took) - 1) // 2 : len(took) // 2 + 1]
    usual = sum(middle) // len(middle) if took else 0
    named, at = copying.hung(), copying.under_way
    if at is None or age <= max(LIMIT, 10 * usual):
        assert named is None
    else:
        assert named is not None
        assert (named.attempt, named.age, named.usual or 0) == (at, age, usual)


def test_a_copy_hangs_after_thirty_minutes_or_ten_times_as_long_as_others_take() -> None:
    copying = Copying()
    copying.begin()
    copying.now += LIMIT
    assert copying.hung() is None
    copying.now += 1
    found = copying.hung()
    assert found is not None
    assert (
        "orders-3: broker 1 has been uploading the segment at offset 0 (9 B) for 30.0 min; no later segment "
        "is tiered before this upload ends" in found.says()
    )
    for _ in range(3):
        copying.finish(10 * MINUTE) if copying.under_way else None
        copying.begin()
    copying.now += 99 * MINUTE
    assert copying.hung() is None, "slow, as the others were"
    copying.now += 12 * MINUTE
    assert copying.hung() is not None


def test_no_copy_hangs_that_a_dead_leader_began() -> None:
    copying = Copying()
    copying.begin()
    copying.die(90 * MINUTE)
    assert copying.hung() is None
    copying.begin()
    assert copying.hung() is None, "the new leader has just begun"
    copying.die(90 * MINUTE)
    assert copying.hung() is None, "the first one leads again, and another one has begun since"


def test_no_copy_hangs_if_its_offsets_were_published_meanwhile() -> None:
    copying = Copying()
    copying.begin()
    published = remote_segment(0, 9, ((0, 0),), STARTED)
    for record in (SegmentRecord(published), SegmentUpdate(published.id, 1, 8, FINISHED)):
        copying.cache.apply(record, is_ours=True)
    copying.now += 90 * MINUTE
    assert copying.hung() is None
    copying.next = 10
    assert copying.hung() is None


def test_no_copy_hangs_if_an_earlier_attempt_was_finished_since() -> None:
    copying = Copying()
    for _ in range(3):  # copies take a minute, and the late one is not the usual
        copying.begin()
        copying.finish(MINUTE)
    copying.begin()
    earlier = copying.under_way
    assert earlier is not None
    copying.begin()
    copying.now += 90 * MINUTE
    assert copying.hung() is not None
    copying.tell(earlier, FINISHED)
    assert copying.hung() is None


@pytest.mark.parametrize(("missing", "hangs"), [(20, False), (49, False), (50, True), (59, True), (60, False)])
def test_copy_hangs_if_it_holds_the_first_offset_missing(missing: int, hangs: bool) -> None:
    """Another one is of offsets that the leader has cut off, as after an unclean election, or that are tiered."""
    copying = Copying(next=50)
    copying.begin()
    copying.next, copying.now = missing, copying.now + 90 * MINUTE
    assert (copying.hung() is not None) == hangs


def test_copied_twice_names_the_copy_that_brokers_do_not_read() -> None:
    """The old copy answers after it was freed, and its broker publishes it behind the one that took its place."""
    copying = Copying()
    copying.begin()
    old = copying.under_way
    assert old is not None
    copying.begin()
    new = copying.under_way
    assert new is not None
    copying.finish(MINUTE)
    assert list(copied_twice(copying.cache, PARTITION)) == []
    copying.tell(old, FINISHED)
    ((loser, winner),) = copied_twice(copying.cache, PARTITION)
    assert (loser, winner) == (new.id.segment_id, old.id.segment_id)
    (read,) = {each for _, _, each in copying.cache.index(PARTITION).read(old)}
    assert read is not None
    assert read.id.segment_id == winner


def test_copied_twice_names_no_copies_of_two_leaders() -> None:
    """After an unclean election; a broker looks by leader epoch and reads both."""
    cache, copies = MetadataCache(), []
    for epoch in (2, 1):
        copies.append(remote_segment(0, 9, ((0, 0), (epoch, 5)), STARTED))
        assert cache.apply(SegmentRecord(copies[-1]))
        assert cache.apply(SegmentUpdate(copies[-1].id, 1, 8, FINISHED))
    assert list(copied_twice(cache, PARTITION)) == []
    read = {each.id for copy in copies for _, _, each in cache.index(PARTITION).read(copy) if each is not None}
    assert read == {copy.id for copy in copies}


def test_find_hung_looks_once_at_all_attempts_of_a_copier_that_fails() -> None:
    """It leaves thousands a day; nobody is asked of them, as the newest is young."""
    looks: list[TopicIdPartition] = []

    class Counted(MetadataCache):
        def segments(self, partition: TopicIdPartition) -> dict[str, RemoteLogSegmentMetadata]:
            looks.append(partition)
            return super().segments(partition)

    copying = Copying(cache=Counted())
    for _ in range(100):
        copying.begin()
        copying.now += MINUTE
    looks.clear()
    nobody = SimpleNamespace(log_starts=dict)
    found = find_hung(nobody, copying.cache, nobody, {PARTITION: 1}, HungLimit(copying.now, LIMIT))  # type: ignore[arg-type]
    assert (list(found), len(looks) < 9) == ([], True)


def test_a_host_whose_clock_is_behind_hides_no_copy_that_hangs() -> None:
    """The broker's newest record, of another partition, says how late it is there."""
    copying = Copying()
    copying.begin()
    other = replace(copying.under_way.id, partition=9)  # type: ignore[union-attr]
    later = replace(copying.under_way, id=other, event_timestamp=copying.now + LIMIT + 1)  # type: ignore[arg-type]
    of_host = HungLimit(copying.now - 600 * MINUTE, LIMIT)
    nobody = SimpleNamespace(log_starts=lambda _: {PARTITION: 0})

    def unknown(*_: object) -> None:
        raise UnknownTopicError("orders", hint="")

    def hanging() -> list[HungCopy]:
        return list(find_hung(nobody, copying.cache, unknown, {PARTITION: 1}, of_host))  # type: ignore[arg-type]

    assert hanging() == []
    assert copying.cache.apply(SegmentRecord(replace(later, broker_id=2)))
    assert hanging() == [], "another broker has another clock"
    assert copying.cache.apply(SegmentRecord(replace(later, id=replace(other, segment_id="AAAAAAAAAAAAAAAAAAAAAA"))))
    assert [each.age for each in hanging()] == [LIMIT + 1]


@pytest.mark.parametrize("error", [UnknownTopicError, LeaderEpochLineageError])
def test_remote_end_is_known_if_nobody_tells_the_leader_epochs(error: type[TiersnapError]) -> None:
    """It ended the whole run: `unblock` freed none of the partitions."""
    copying = Copying()
    copying.begin()
    copying.finish(MINUTE)
    for _ in range(2):
        copying.begin()

    def unknown(*_: object) -> None:
        raise error("orders", hint="")

    assert remote_end(copying.cache, unknown, PARTITION, 1, 0) == 10  # type: ignore[arg-type]


def said(place: Place, *words: str | Path) -> tuple[int, dict]:
    """Exit code and result of a command at a place."""
    out = io.StringIO()
    given = ["--output", "json", *map(str, words), "--bootstrap-server", "model:9092"]

    def command(_: object) -> ExitCode:
        with contextlib.redirect_stdout(out):
            return ExitCode(run(given))

    (code,) = place.world.run({"c": command}).values()
    assert code is not None
    result: dict = json.loads(out.getvalue())["result"]
    return code, result


def test_doctor_names_a_copy_that_hangs_and_what_frees_it(tmp_path: Path) -> None:
    with found("hung copy", tmp_path) as place:
        now = ("--now", utc(place.world.store.time) or "")
        metrics = tmp_path / "doctor.prom"
        code, result = said(place, "doctor", *now, "--metrics-file", metrics)
        assert code == 4
        assert parse_metrics(metrics.read_text())[0]["tiersnap_hung_copies", frozenset({("command", "doctor")})] == 1
        ((hung,), (step,)) = result["hung"], result["next"]
        free = step["command"]
        assert (hung["topic"], hung["partition"], hung["broker"], hung["base_offset"]) == ("orders", 0, 1, 15)
        assert 3_600_000 <= hung["age_ms"] < 3_700_000
        given = f"--now {now[1].replace('0Z', '0000+00:00')} --bootstrap-server model:9092"
        assert free.startswith(f"tiersnap unblock LOGDIR {given} --remote s3://")
        assert (free[-8:], step["note"]) == (" --apply", "run this command on the host of broker 1")
        _, on_host = said(place, "doctor", place.disk, *now)
        assert (hung["waiting_bytes"], on_host["hung"][0]["waiting_bytes"]) == (162, 0), "of the files that are there"
        assert on_host["next"][0]["command"].startswith(f"tiersnap unblock {place.disk} {given} ")
        slow = ("--hung-after", "2h", "--metrics-file", metrics)
        assert said(place, "doctor", *now, *slow) == (0, result | {"hung": [], "next": []})
        assert parse_metrics(metrics.read_text())[0]["tiersnap_hung_copies", frozenset({("command", "doctor")})] == 0


@pytest.mark.parametrize(("here", "is_restarted"), [(1, False), (2, True)])
def test_doctor_restarts_only_brokers_that_the_repair_here_does_not(
    tmp_path: Path, here: int, *, is_restarted: bool
) -> None:
    """In ZooKeeper mode, beside snapshots that are missing here: their repair restarts the broker of this host."""
    with found("hung copy", tmp_path) as place:
        (place.disk / "meta.properties").write_text(f"version=0\ncluster.id={CLUSTER_ID}\nbroker.id={here}\n")
        write_small_log(place.disk, "payments")
        file_of(place.disk / "payments-0", 10, ".snapshot").unlink()
        _, result = said(place, "doctor", place.disk, "--now", utc(place.world.store.time) or "")
    assert [each["broker"] for each in result["hung"]] == [1]
    assert [each["verdict"] for each in result["waiting"]] == ["MISSING_SNAPSHOT"]
    assert any(each["command"].startswith("tiersnap repair") for each in result["next"])
    restarts = [each["note"] for each in result["next"] if each["words"].startswith("restart the broker that leads")]
    assert restarts == ["run this command on the host of broker 1"] * is_restarted


def test_doctor_names_no_copy_of_a_topic_that_is_not_copied(tmp_path: Path) -> None:
    with found("hung copy", tmp_path) as place:
        place.world.cluster.change_settings("orders", {COPY_DISABLE: "true"})
        code, result = said(place, "doctor", "--now", utc(place.world.store.time) or "")
        assert (code, result["hung"]) == (0, [])


def test_unblock_switches_copying_off_and_on_alone_for_a_copy_that_hangs(tmp_path: Path) -> None:
    with found("hung copy", tmp_path) as place:
        words = ("unblock", place.disk, "--remote", place.remote)
        cluster, toggled = place.world.cluster, []
        change = cluster.change_settings

        def changed(topic: str, values: Mapping[str, str | None], *, validate_only: bool = False) -> None:
            if not validate_only:
                toggled.append(values.get(COPY_DISABLE))
            change(topic, values, validate_only=validate_only)

        cluster.change_settings = changed  # type: ignore[method-assign]
        code, plan = said(place, *words)
        ((row,), before) = plan["rows"], [*cluster.records(PARTITION_OF_PLACE)]
        assert (code, row["outcome"], row["tier"], row["publish"], toggled) == (0, "PLANNED", 0, 0, [])
        assert "broker 1 has been uploading the segment at offset 15" in row["reason"]
        code, done = said(place, *words, "--apply")
        assert (code, [row["outcome"] for row in done["rows"]]) == (0, ["FREED"])
        assert toggled == ["true", None]
        assert [*cluster.records(PARTITION_OF_PLACE)] == before
