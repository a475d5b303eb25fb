"""The report adds up: counts, roll-up, causes and first blockers, against sums worked out by hand and row by row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.reference.readiness_tables import (
    GIB,
    LOG_DIR,
    RUN,
    TIMESTAMP,
    fleet_table,
    row,
    sample_table,
    segments_of,
    table,
)
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.gate.printed_steps import Step
from tiersnap.snapshot.gate.verdict import IN_REMOTE_STORAGE, LEVEL, RANK, SEVERITY, Level, Verdict
from tiersnap.snapshot.report.aggregate import aggregate
from tiersnap.snapshot.report.model import Report, SnapshotsAtEnds
from tiersnap.snapshot.report.summary import summarise

pytestmark = pytest.mark.unit


def _topics(report: Report) -> dict[str, object]:
    return {topic.topic: topic for topic in report.topics}


def _partitions(report: Report) -> dict[str, object]:
    return {partition.name: partition for topic in report.topics for partition in topic.partitions}


def test_the_sample_cluster_adds_up_to_what_was_counted_by_hand() -> None:
    total = summarise(sample_table(), RUN).cluster
    # Every segment is 1 GiB. payments 0..3, orders 0..1, ledger.v1, clicks, audit-log, metrics, __consumer_offsets.
    assert {str(verdict): count.segments for verdict, count in total.verdicts.items()} == {
        "TIERED": 8 + 4 + 4 + 6 + 20,
        "READY": 2 + 3 + 5,
        "ABOVE_LSO": 1,
        "GAP_BEFORE": 9 + 5 + 5 + 2 + 1,
        "TOPIC_ID_UNKNOWN": 7,
        "MISSING_INDEX": 1,
        "MISSING_SNAPSHOT": 1,
        "SUSPECT_SNAPSHOT": 1,
        "CORRUPT_SNAPSHOT": 1,
        "CORRUPT_SEGMENT": 1,
        "ACTIVE_SEGMENT": 11,
        "COMPACTED_TOPIC": 3,
    }
    assert (total.segments, total.bytes) == (101, 101 * GIB)
    assert (total.tiered_segments, total.tiered_bytes) == (42, 42 * GIB)
    assert (total.uploaded_bytes, total.in_remote_bytes) == (0, 0)
    assert (total.ready_segments, total.ready_bytes) == (10, 10 * GIB)
    assert (total.waiting_segments, total.waiting_bytes) == (35, 35 * GIB)
    assert (total.never_tiered_segments, total.never_tiered_bytes) == (14, 14 * GIB)
    assert total.findings == 1
    assert total.worst is Verdict.CORRUPT_SEGMENT


def test_tiered_ready_waiting_and_never_tiered_are_all_segments_and_none_twice() -> None:
    uploaded = segments_of("t", 0, "UPLOADED UPLOADED IN_REMOTE")
    total = summarise(table([*sample_table().to_pylist(), *uploaded]), RUN).cluster
    assert (total.tiered_segments, total.uploaded_segments, total.in_remote_segments) == (42, 2, 1)
    groups = ("tiered", "uploaded", "in_remote", "ready", "waiting", "never_tiered")
    assert sum(getattr(total, f"{group}_segments") for group in groups) == total.segments
    assert sum(getattr(total, f"{group}_bytes") for group in groups) == total.bytes


def test_every_verdict_has_one_place_in_the_order_and_a_level() -> None:
    assert sorted(SEVERITY) == sorted(Verdict)
    assert set(LEVEL) == set(Verdict)
    levels = list(Level)
    order = [levels.index(LEVEL[verdict]) for verdict in SEVERITY]
    assert order == sorted(order), "a verdict must not rank above one whose level is worse"
    assert not {LEVEL[verdict] for verdict in IN_REMOTE_STORAGE} & {Level.BLOCKED, Level.PENDING}


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ("ACTIVE_SEGMENT", "ACTIVE_SEGMENT"),
        ("TIERED ACTIVE_SEGMENT", "TIERED"),
        ("COMPACTED_TOPIC ACTIVE_SEGMENT", "COMPACTED_TOPIC"),
        ("TIERED READY ACTIVE_SEGMENT", "READY"),
        ("TIERED UPLOADED ACTIVE_SEGMENT", "UPLOADED"),
        ("UPLOADED IN_REMOTE READY", "READY"),
        ("READY ABOVE_LSO GAP_BEFORE ACTIVE_SEGMENT", "ABOVE_LSO"),
        ("MISSING_INDEX GAP_BEFORE ACTIVE_SEGMENT", "MISSING_INDEX"),
        ("MISSING_SNAPSHOT GAP_BEFORE CORRUPT_SEGMENT ACTIVE_SEGMENT", "CORRUPT_SEGMENT"),
        ("SUSPECT_SNAPSHOT GAP_BEFORE ACTIVE_SEGMENT", "SUSPECT_SNAPSHOT"),
    ],
)
def test_a_partition_has_the_worst_verdict_of_its_segments(verdicts: str, worst: str) -> None:
    report = summarise(table(segments_of("t", 0, verdicts)), RUN)
    assert report.topics[0].partitions[0].worst == worst
    assert report.topics[0].worst == worst
    assert report.cluster.worst == worst


def test_topics_and_their_partitions_come_worst_first_then_by_bytes_that_wait_then_by_name() -> None:
    report = summarise(sample_table(), RUN)
    assert [topic.topic for topic in report.topics] == [
        "payments",  # CORRUPT_SEGMENT
        "clicks",  # MISSING_INDEX
        "ledger.v1",  # TOPIC_ID_UNKNOWN
        "orders",  # ABOVE_LSO
        "audit-log",  # READY
        "metrics",  # TIERED
        "__consumer_offsets",  # COMPACTED_TOPIC
    ]
    assert [partition.partition for partition in report.topics[0].partitions] == [3, 2, 0, 1]
    rows = [
        r for n, size in (("b", 5), ("a", 5), ("c", 9)) for r in [row(n, 0, 0, 9, "MISSING_INDEX", size_bytes=size)]
    ]
    assert [topic.topic for topic in summarise(table(rows), RUN).topics] == ["c", "a", "b"]


def test_the_first_blocker_is_the_lowest_offset_and_says_reason_and_command() -> None:
    payments = _partitions(summarise(sample_table(), RUN))["payments-3"]
    first, second = payments.blocking
    assert (first.verdict, first.base_offset) == (Verdict.CORRUPT_SNAPSHOT, 0)
    assert first.reason == "CRC of the entries is 0x1f2e3d4c, the header says 0x00000000"
    assert [step.command for step in first.steps] == [
        "tiersnap run --source file:///var/lib/kafka/data --remote s3://kafka-tier/prod/"
        " --warehouse s3://lake/tiersnap --replace --apply",
        "tiersnap repair /var/lib/kafka/data --replace --apply",
        "tiersnap repair /var/lib/kafka/data --remote s3://kafka-tier/prod/ --replace --apply",
    ]
    assert (second.verdict, second.base_offset) == (Verdict.CORRUPT_SEGMENT, 5_000_000)
    assert second.steps[0].command == "tiersnap dump /var/lib/kafka/data/payments-3/00000000000005000000.log"


def test_the_reason_shown_is_that_of_the_first_segment_in_whatever_order_rows_come() -> None:
    rows = [row("t", 0, base, base + 10, "ABOVE_LSO", reason=f"at {base}") for base in (20, 0, 10)]
    report = summarise([table([each]).to_batches()[0] for each in rows], RUN)
    blocker = report.topics[0].partitions[0].blocking[0]
    assert (blocker.base_offset, blocker.reason, blocker.segments) == (0, "at 0", 3)


def test_segments_behind_a_blocker_are_counted_for_its_cause() -> None:
    causes = {cause.verdict: cause for cause in summarise(sample_table(), RUN).causes}
    assert Verdict.GAP_BEFORE not in causes
    missing = causes[Verdict.MISSING_SNAPSHOT]
    assert (missing.partitions, missing.segments, missing.behind_segments) == (1, 1, 9)
    # The damaged segment of payments-3 is not what its five others wait for first.
    assert causes[Verdict.CORRUPT_SEGMENT].behind_segments == 0
    assert causes[Verdict.CORRUPT_SNAPSHOT].behind_segments == 5
    waiting = sum(cause.bytes + cause.behind_bytes for cause in causes.values())
    assert waiting == 35 * GIB


def test_causes_come_worst_first_whatever_their_bytes() -> None:
    causes = summarise(sample_table(), RUN).causes
    ranks = [RANK[cause.verdict] for cause in causes]
    assert ranks == sorted(ranks)
    assert causes[0].bytes < max(cause.bytes for cause in causes)


def test_gap_before_is_its_own_cause_only_when_the_table_lacks_what_it_waits_for() -> None:
    report = summarise(table([row("t", 0, 50, 60, "GAP_BEFORE")]), RUN)
    assert [cause.verdict for cause in report.causes] == [Verdict.GAP_BEFORE]
    assert report.causes[0].segments == 1
    assert report.causes[0].behind_segments == 0


def test_a_fleet_equals_a_sum_row_by_row_in_any_order_and_any_batches() -> None:
    rows = fleet_table(7, 5, 9)
    expected: defaultdict[tuple[str, int], defaultdict[str, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0])
    )
    for each in rows.to_pylist():
        count = expected[each["topic"], each["partition"]][each["verdict"]]
        count[0] += 1
        count[1] += each["size_bytes"]
    report = summarise(rows, RUN)
    observed = {
        (partition.topic, partition.partition): {
            str(verdict): [count.segments, count.bytes] for verdict, count in partition.verdicts.items()
        }
        for topic in report.topics
        for partition in topic.partitions
    }
    assert observed == {key: dict(value) for key, value in expected.items()}
    shuffled = rows.take(np.random.default_rng(3).permutation(rows.num_rows))
    for size in (1, 13, 1000):
        assert summarise(iter(shuffled.to_batches(max_chunksize=size)), RUN) == report


def test_partial_results_may_be_combined_at_any_time() -> None:
    rows = fleet_table(4, 3, 6).to_batches(max_chunksize=5)
    once, often = aggregate(rows, TIMESTAMP), aggregate(rows, TIMESTAMP, partial_rows=1)
    order = [(name, "ascending") for name in ("topic", "log_dir", "partition", "verdict")]
    assert once.verdicts.sort_by(order).equals(often.verdicts.sort_by(order))


def test_replicas_in_two_log_directories_are_two_partitions_of_one_topic() -> None:
    rows = [row("t", 0, 0, None, "ACTIVE_SEGMENT", log_dir=place, size_bytes=7) for place in ("/b", "/a")]
    report = summarise(table(rows), RUN)
    assert [partition.log_dir for partition in report.topics[0].partitions] == ["/a", "/b"]
    assert (report.topics[0].segments, report.topics[0].bytes) == (2, 14)
    assert report.log_dirs == ("/a", "/b")


def test_offsets_and_ids_that_are_not_known_stay_unknown_and_zero_is_an_offset() -> None:
    rows = [
        row("t", 0, 0, 5, "TOPIC_ID_UNKNOWN", topic_id=None),
        row("t", 1, 0, 5, "READY", high_watermark=0, last_stable_offset=0),
    ]
    unknown, known = (_partitions(summarise(table(rows), RUN))[name] for name in ("t-0", "t-1"))
    assert (unknown.topic_id, unknown.high_watermark, unknown.last_stable_offset) == (None, None, None)
    assert (known.high_watermark, known.last_stable_offset) == (0, 0)


def test_the_oldest_that_waits_is_neither_tiered_nor_undated() -> None:
    rows = [
        row("t", 0, 0, 10, "TIERED", largest_timestamp=5),
        row("t", 0, 10, 20, "MISSING_SNAPSHOT", largest_timestamp=-1),
        row("t", 0, 20, 30, "GAP_BEFORE", largest_timestamp=TIMESTAMP + 9),
        row("t", 0, 30, 40, "GAP_BEFORE", largest_timestamp=TIMESTAMP + 8),
        row("u", 0, 0, None, "ACTIVE_SEGMENT", largest_timestamp=3),
    ]
    report = summarise(table(rows), RUN)
    assert report.cluster.waiting_since == TIMESTAMP + 8
    assert _topics(report)["u"].waiting_since is None


def test_snapshots_are_counted_by_verdict_and_provenance() -> None:
    rows = [
        row("t", 0, 0, 10, "READY", snapshot="MATCHES", snapshot_provenance="BROKER"),
        row("t", 0, 10, 20, "READY", snapshot="MATCHES", snapshot_provenance="BROKER"),
        row("t", 0, 20, 30, "MISSING_SNAPSHOT", snapshot="MISSING", snapshot_provenance=None),
        row("t", 0, 30, None, "ACTIVE_SEGMENT", snapshot="MISSING", snapshot_provenance=None),
    ]
    found = summarise(table(rows), RUN).snapshots
    assert found == (SnapshotsAtEnds("MATCHES", "BROKER", None, 2), SnapshotsAtEnds("MISSING", None, None, 1))


def test_blocked_topics_take_turns_for_details_and_healthy_ones_come_last() -> None:
    rows = [r for p in range(4) for r in segments_of("bad", p, "MISSING_SNAPSHOT GAP_BEFORE ACTIVE_SEGMENT")]
    rows += [r for p in range(4) for r in segments_of("late", p, "ABOVE_LSO ACTIVE_SEGMENT")]
    rows += [r for p in range(4) for r in segments_of("fine", p, "TIERED ACTIVE_SEGMENT")]

    def detailed(details: int) -> dict[str, int]:
        report = summarise(table(rows), RUN, details=details)
        return {t.topic: sum(bool(p.timeline) for p in t.partitions) for t in report.topics}

    assert detailed(3) == {"bad": 2, "late": 1, "fine": 0}
    assert detailed(9) == {"bad": 4, "late": 4, "fine": 1}
    assert detailed(0) == {"bad": 0, "late": 0, "fine": 0}


def test_an_empty_table_gives_an_empty_report() -> None:
    for rows in (sample_table().slice(0, 0), [], iter(sample_table().slice(0, 0).to_batches())):
        report = summarise(rows, RUN)
        assert (report.topics, report.causes, report.cluster.worst, report.cluster.partitions) == ((), (), None, 0)


def test_large_and_dictionary_strings_are_as_good_as_strings() -> None:
    rows = sample_table()
    kinds = {"topic": pa.dictionary(pa.int32(), pa.string()), "reason": pa.large_string(), "verdict": pa.large_string()}
    other = rows.cast(pa.schema([(f.name, kinds.get(f.name, f.type)) for f in rows.schema]))
    assert summarise(other, RUN) == summarise(rows, RUN)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (sample_table().drop_columns(["verdict", "reason"]), "lacks verdict, reason"),
        (table([row("t", 0, 0, 1, "MISSING_MOON")]), "that this tiersnap does not know: MISSING_MOON"),
        (sample_table().set_column(2, "partition", pa.array(["x"] * 101)), "does not fit its schema"),
        (sample_table().set_column(1, "topic", pa.nulls(101, pa.string())), "rows without topic"),
    ],
)
def test_a_table_of_another_version_is_refused_by_name(rows: pa.Table, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        summarise(rows, RUN)
    assert caught.value.hint


def test_keys_in_uris_do_not_reach_the_report() -> None:
    run = replace(RUN, source="s3://AKIA:hush@bucket/x", remote="s3://AKIA:hush@tier", warehouse="hdfs://me@host/lake")
    rows = table(segments_of("t", 0, "MISSING_SNAPSHOT ACTIVE_SEGMENT", log_dir="s3://AKIA:hush@bucket/x"))
    report = summarise(rows, run)
    assert (report.run.source, report.run.warehouse) == ("s3://bucket/x", "hdfs://host/lake")
    assert "hush" not in repr(report)
    assert LOG_DIR not in repr(report)


def test_cause_names_log_directories_and_a_file_that_have_it() -> None:
    rows = [
        *segments_of("a", 0, "READY CORRUPT_SEGMENT GAP_BEFORE ACTIVE_SEGMENT", step=10, log_dir="/data/2"),
        *segments_of("a", 1, "CORRUPT_SEGMENT ACTIVE_SEGMENT", step=10, log_dir="/data/1"),
        *segments_of("b", 0, "MISSING_SNAPSHOT ACTIVE_SEGMENT", step=10, log_dir="/data/1"),
        *segments_of("c", 0, "MISSING_SNAPSHOT ACTIVE_SEGMENT", step=10, log_dir="/data/3"),
    ]
    causes = {cause.verdict: cause.steps for cause in summarise(table(rows), RUN).causes}
    dump, *_ = causes[Verdict.CORRUPT_SEGMENT]
    assert dump == Step("", "tiersnap dump /data/2/a-0/00000000000000000010.log", True)
    _, repair = causes[Verdict.MISSING_SNAPSHOT]
    assert (repair.command, repair.is_complete) == ("tiersnap repair /data/1 /data/3 --apply", True)


def test_cause_of_collected_sources_names_one_host() -> None:
    run = replace(RUN, collected={"s3://lake/1": "/var/lib/kafka", "s3://lake/2": "/var/lib/kafka"})
    rows = [row for number in "12" for row in segments_of("b", int(number), "MISSING_SNAPSHOT ACTIVE_SEGMENT",
                                                          log_dir=f"s3://lake/{number}")]  # fmt: skip
    (cause,) = summarise(table(rows), run).causes
    assert cause.steps[1].command == "tiersnap repair /var/lib/kafka --apply"
