"""T84 to T94: what was lost, and what only seems so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.reference import log_builder as lb
from tests.reference.batch_relation import Judged, Relation, SeenBatch, relation
from tests.reference.kip952_log import NOW
from tests.reference.log_starts import ReplicaLogStart, went_back
from tests.reference.lost_producer import Evidence, judge_lost_producer
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.exactly_once.models.audit_rules import LossVerdict
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS
from tiersnap.snapshot.log.log_dir import open_log_dir

DAY = 86_400_000


def judge(last: int | None, log_start: int, log_end: int = 1000, *, as_of: int = NOW, **more):
    found = judge_lost_producer(Evidence(last, log_start, log_end, **more), as_of=as_of, expiration=DAY)
    return found.verdict, found.is_real_loss


@scenario("T84")
def _(_: Path) -> None:
    assert judge(99, 100) == (LossVerdict.SPURIOUS_RETENTION, False)


@scenario("T85")
def _(_: Path) -> None:
    found = judge_lost_producer(
        Evidence(100, 100, 1000, batch_is_there=True, last_timestamp=NOW - 2 * DAY), as_of=NOW, expiration=DAY
    )
    assert (found.verdict, found.is_real_loss, found.is_false_alarm) == (LossVerdict.EXPIRED, False, True)


@scenario("T86")
def _(_: Path) -> None:
    found = judge(100, 100, batch_is_there=True, last_timestamp=NOW - 3_600_000)
    assert found == (LossVerdict.STATE_LOST, False)


@scenario("T87")
def _(_: Path) -> None:
    found = [judge(500, 0, 450, earlier_high_watermark=mark) for mark in (480, 500, 501)]
    unacked = (LossVerdict.UNACKED_TRUNCATION, False)
    assert found == [unacked, unacked, (LossVerdict.TRUNCATED, True)]


@scenario("T88")
def _(_: Path) -> None:
    assert judge(300, 0, other_batch_is_there=True, earlier_high_watermark=400) == (LossVerdict.DIVERGED, True)


@scenario("T89")
def _(_: Path) -> None:
    found = relation(SeenBatch(0, 17, 17), (SeenBatch(0, 0, 9),), is_compacted=True)
    assert found == Judged(Relation.COMPACTION_GAP, 7)


@scenario("T92")
def _(_: Path) -> None:
    assert relation(SeenBatch(0, 5, 9), ()).relation is Relation.FIRST_WRITE_LOST
    assert relation(SeenBatch(0, 5, 9), (), log_start_offset=7).relation is Relation.FRONT_TRUNCATED


@scenario("T93")
def _(_: Path) -> None:
    first, second = SeenBatch(0, 0, 9), SeenBatch(0, 10, 19)
    assert relation(second, (first,)).relation is Relation.OK
    assert relation(first, (first, second)).relation is Relation.DUPLICATE_EXACT


def partition(tmp_path: Path, *, log_start_offset: int | None):
    batches = [lb.data_batch(1200, 300, 7, 0, 0), lb.data_batch(1500, 10, 8, 0, 0)]
    lb.write_partition(tmp_path, "t", 0, {1200: batches}, log_start_offset=log_start_offset)
    (found,) = open_log_dir(str(tmp_path)).partitions()
    return found


@scenario("T90")
def _(tmp_path: Path) -> None:
    assert partition(tmp_path, log_start_offset=None).log_start_offset == 1200


@scenario("T91")
def _(tmp_path: Path) -> None:
    found = partition(tmp_path, log_start_offset=1500)
    assert (found.log_start_offset, [segment.base_offset for segment in found.segments]) == (1500, [1200])
    # What lies below is evidence that the producer was there, and that nothing of it is lost.
    assert judge(1499, found.log_start_offset, batch_is_there=True) == (LossVerdict.SPURIOUS_RETENTION, False)
    forgets = [era.name for era in BROKER_ERAS if era.forgets_deleted]
    assert forgets == ["B0", "B1", "B2", "B3"]


@scenario("T94")
def _(_: Path) -> None:
    first, second = ReplicaLogStart("broker-1", 4, 1500), ReplicaLogStart("broker-2", 5, 1400)
    assert went_back([first, second]) == [(first, second)]
    assert went_back([second, replace(first, log_start_offset=1300)]) == []
    assert went_back([first, replace(second, leader_epoch=4)]) == [], "a follower only lags"
