"""Spurious or lost: what a client can say of an error, what the log can say of a producer, and of two batches."""

from __future__ import annotations

import pytest

from tests.reference.batch_relation import Judged, Relation, SeenBatch, relation
from tests.reference.log_starts import ReplicaLogStart, went_back
from tests.reference.lost_producer import Evidence, LiveReading, judge_lost_producer, live_rule
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.audit_rules import TABLE
from tiersnap.snapshot.exactly_once.models.decision_table import read_table, words
from tiersnap.snapshot.exactly_once.models.producer_entry import LARGEST_SEQUENCE

pytestmark = pytest.mark.unit

NOW = 1_700_000_000_000
DAY = 86_400_000


@pytest.mark.parametrize(
    ("error", "last_acked", "log_start", "reading"),
    [
        ("UNKNOWN_PRODUCER_ID", 99, -1, LiveReading.LEADER_MOVED),
        ("UNKNOWN_PRODUCER_ID", 99, 100, LiveReading.SPURIOUS),
        ("UNKNOWN_PRODUCER_ID", 100, 100, LiveReading.LOSS),
        ("UNKNOWN_PRODUCER_ID", 101, 100, LiveReading.LOSS),
        ("UNKNOWN_PRODUCER_ID", -1, 0, LiveReading.SPURIOUS),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", 99, 100, LiveReading.LOSS),
        ("DUPLICATE_SEQUENCE_NUMBER", 99, 100, LiveReading.ALREADY_WRITTEN),
        ("NOT_ENOUGH_REPLICAS", 99, 100, LiveReading.NO_EVIDENCE),
    ],
)
def test_a_client_reads_an_error_by_its_last_acknowledged_offset(error, last_acked, log_start, reading):
    assert live_rule(Answer(error), last_acked_offset=last_acked, log_start_offset=log_start) is reading


# Row of the table, evidence (last offset, log start, log end, more), verdict, real loss, false alarm of the live rule.
CASES = [
    ("1", Evidence(None, 0, 100), "NEW", False, False),
    ("2", Evidence(99, 100, 200), "SPURIOUS_RETENTION", False, False),
    ("3a", Evidence(150, 100, 200, batch_is_there=True, last_timestamp=NOW - DAY), "EXPIRED", False, True),
    ("3b", Evidence(150, 100, 200, batch_is_there=True, last_timestamp=NOW - DAY + 1), "STATE_LOST", False, True),
    (
        "3b",
        Evidence(150, 100, 200, batch_is_there=True, last_timestamp=NOW - 9 * DAY, has_open_transaction=True),
        "STATE_LOST",
        False,
        True,
    ),
    ("4a", Evidence(200, 100, 200, earlier_high_watermark=201), "TRUNCATED", True, False),
    ("4a'", Evidence(200, 100, 200, earlier_high_watermark=200), "UNACKED_TRUNCATION", False, True),
    ("4a'", Evidence(200, 100, 200), "UNACKED_TRUNCATION", False, True),
    ("4b", Evidence(150, 100, 200, other_batch_is_there=True, earlier_high_watermark=151), "DIVERGED", True, False),
    ("4b'", Evidence(150, 100, 200, other_batch_is_there=True), "UNACKED_DIVERGENCE", False, True),
    ("4c", Evidence(150, 100, 200, is_compacted=True), "COMPACTED", False, True),
    ("4d", Evidence(150, 100, 200), "HOLE", True, False),
]


@pytest.mark.parametrize(("rule", "evidence", "verdict", "is_loss", "is_false_alarm"), CASES)
def test_a_producer_that_is_missing_is_judged_by_what_the_log_holds(rule, evidence, verdict, is_loss, is_false_alarm):
    found = judge_lost_producer(evidence, as_of=NOW, expiration=DAY)
    assert (found.rule, found.verdict, found.is_real_loss, found.is_false_alarm) == (
        rule,
        verdict,
        is_loss,
        is_false_alarm,
    )


def test_every_row_of_the_table_of_losses_is_a_case():
    assert {case[0] for case in CASES} == {row["#"] for row in TABLE}


def test_a_broker_that_never_drops_producers_has_lost_what_it_does_not_know():
    idle = Evidence(150, 100, 200, batch_is_there=True, last_timestamp=0)
    assert judge_lost_producer(idle, as_of=NOW, expiration=None).verdict == "STATE_LOST"


BEFORE = SeenBatch(3, 10, 19)


@pytest.mark.parametrize(
    ("batch", "earlier", "judged"),
    [
        (SeenBatch(3, 20, 24), (BEFORE,), Judged(Relation.OK)),
        (SeenBatch(3, 0, 4), (SeenBatch(3, 5, LARGEST_SEQUENCE),), Judged(Relation.OK)),
        (BEFORE, (BEFORE,), Judged(Relation.DUPLICATE_EXACT, 10)),
        (BEFORE, (BEFORE, SeenBatch(3, 20, 29)), Judged(Relation.DUPLICATE_EXACT, 20)),
        (SeenBatch(3, 15, 25), (BEFORE,), Judged(Relation.DUPLICATE_PARTIAL, 5)),
        (SeenBatch(3, 0, 4), (BEFORE,), Judged(Relation.SEQUENCE_RESET)),
        (SeenBatch(3, 27, 30), (BEFORE,), Judged(Relation.GAP, 7)),
        (SeenBatch(3, 5, 6), (BEFORE,), Judged(Relation.BACKWARD, 15)),
        (SeenBatch(4, 0, 4), (BEFORE,), Judged(Relation.EPOCH_BUMP)),
        (SeenBatch(4, 7, 9), (BEFORE,), Judged(Relation.BUMP_NONZERO)),
        (SeenBatch(2, 0, 4), (BEFORE,), Judged(Relation.EPOCH_REGRESSION)),
        (SeenBatch(0, 0, 4), (), Judged(Relation.FIRST_SEEN)),
        (SeenBatch(2, 0, 4), (), Judged(Relation.FIRST_SEEN_LATER_EPOCH)),
        (SeenBatch(0, 7, 9), (), Judged(Relation.FIRST_WRITE_LOST)),
        (SeenBatch(1, 0, 4), (), Judged(Relation.FIRST_SEEN_LATER_EPOCH)),
        (SeenBatch(3, 0, 9), (BEFORE,), Judged(Relation.SEQUENCE_RESET)),
        (SeenBatch(3, 0, 10), (BEFORE,), Judged(Relation.DUPLICATE_PARTIAL, 20)),
        (SeenBatch(3, 19, 29), (BEFORE,), Judged(Relation.DUPLICATE_PARTIAL, 1)),
        (SeenBatch(3, 8, 30), (BEFORE,), Judged(Relation.DUPLICATE_PARTIAL, 12)),
        (SeenBatch(3, 10, 19), (BEFORE, SeenBatch(4, 0, 9), SeenBatch(3, 0, 9)), Judged(Relation.OK)),
        (SeenBatch(3, LARGEST_SEQUENCE, 1), (SeenBatch(3, 0, 5),), Judged(Relation.DUPLICATE_PARTIAL, 7)),
        (SeenBatch(3, 1073741844, 1073741844), (BEFORE,), Judged(Relation.BACKWARD, 1 << 30)),
        (SeenBatch(3, 1073741843, 1073741843), (BEFORE,), Judged(Relation.GAP, (1 << 30) - 1)),
    ],
)
def test_a_batch_is_judged_by_the_one_before_it(batch, earlier, judged):
    assert relation(batch, earlier) == judged


@pytest.mark.parametrize(
    ("batch", "earlier", "log", "judged"),
    [
        (SeenBatch(0, 7, 9), (), {"log_start_offset": 1}, Relation.FRONT_TRUNCATED),
        (SeenBatch(0, 7, 9), (), {"is_compacted": True}, Relation.FRONT_TRUNCATED),
        (SeenBatch(0, 0, 9), (), {"log_start_offset": 1}, Relation.FIRST_SEEN),
        (SeenBatch(3, 27, 30), (BEFORE,), {"is_compacted": True}, Relation.COMPACTION_GAP),
        (SeenBatch(3, 5, 6), (BEFORE,), {"is_compacted": True}, Relation.BACKWARD),
    ],
)
def test_a_batch_is_judged_by_what_the_log_has_lost_as_well(batch, earlier, log, judged):
    assert relation(batch, earlier, **log).relation is judged


def test_a_table_repeats_the_cell_to_the_left_of_an_equals_sign():
    assert read_table(" # | one | two | three\n 1 | ok | = | =\n 2 | a, b | no | = ") == (
        {"#": "1", "one": "ok", "two": "ok", "three": "ok"},
        {"#": "2", "one": "a, b", "two": "no", "three": "no"},
    )
    assert words("a, b") == {"a", "b"}


@pytest.mark.parametrize("text", ["a | b\n1\n", "a | a\n1 | 2\n", "a | b\n1 | 2 | 3\n"])
def test_a_table_whose_rows_do_not_fit_its_columns_is_refused(text):
    with pytest.raises(ValueError):
        read_table(text)


# Log start offsets of replicas by leader epoch, and where the newer leader's is below the furthest one before it.
@pytest.mark.parametrize(
    ("replicas", "back"),
    [
        ([("a", 4, 1500), ("b", 5, 1400)], [("a", "b")]),
        ([("b", 5, 1400), ("a", 4, 1500)], [("a", "b")]),
        ([("a", 4, 1500), ("b", 5, 1500)], []),
        ([("a", 4, 1500), ("b", 4, 1400)], []),
        ([("a", 4, 1300), ("b", 4, 1500), ("c", 5, 1400)], [("b", "c")]),
        ([("a", 4, 1500), ("b", 4, 1300), ("c", 5, 1400)], [("a", "c")]),
        ([("a", 4, 1500), ("b", 4, 1500), ("c", 5, 1400)], [("a", "c")]),
        ([("a", 4, 1500), ("b", 5, 1400), ("c", 6, 1300)], [("a", "b"), ("b", "c")]),
        ([("a", 4, 1500)], []),
    ],
)
def test_log_start_went_back_where_a_newer_leader_begins_lower(replicas, back):
    found = went_back([ReplicaLogStart(*each) for each in replicas])
    assert [(old.log_dir, new.log_dir) for old, new in found] == back
