"""The checker of `make chaos`: an honest history passes, and each broken promise is found by its name."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.chaos.check import judge, violations
from tests.chaos.clock import Clock
from tests.chaos.facts import Facts
from tests.chaos.history import Event, Key
from tests.chaos.schedule import FAULTS, schedule
from tests.chaos.skipped_markers import skipped_markers

pytestmark = pytest.mark.unit

ID, OLD_ID = "A" * 22, "B" * 22


def record(offset: int, number: int, *, epoch: int = 0, transaction: str = "", generation: int = 1) -> list[object]:
    """As a consumer tells it."""
    return [offset, epoch, Key(generation, "p", number, transaction).encode()]


def sent(numbers: tuple[int, int], transaction: str | None = None) -> Event:
    names = {"topic": "t", "generation": 1, "producer": "p"}
    return {"type": "sent", "at": 10, **names, "numbers": list(numbers), "transaction": transaction}


def acked(*records: tuple[int, int]) -> Event:
    return {"type": "acked", "topic": "t", "generation": 1, "producer": "p", "records": list(map(list, records))}


def reading(name: str, phase: str, *records: list[object], committed: bool = False, at: int = 100) -> list[Event]:
    isolation = "read_committed" if committed else "read_uncommitted"
    return [
        {"type": "began", "reading": name, "topic": "t", "isolation": isolation, "phase": phase, "at": at},
        {"type": "read", "reading": name, "topic": "t", "records": list(records)},
    ]


def partition(
    *, log_start: int = 0, log_end: int = 3, epochs: tuple[tuple[int, int], ...] = ((0, 0),), active: int = 2
) -> Event:
    offsets = {"log_start": log_start, "log_end": log_end, "local_start": 2, "active": active, "stable": 3}
    return {"type": "partition", "topic": "t", "generation": 1, "topic_id": ID, "epochs": list(epochs), **offsets}


def topic(*, clean: bool = True, at: int = 0, generation: int = 1) -> Event:
    return {"type": "topic", "at": at, "topic": "t", "generation": generation, "clean": clean}


def segment(name: str, start: int, end: int, *, ours: bool = True, state: str = "COPY_SEGMENT_FINISHED") -> Event:
    what = {"topic": "t", "topic_id": ID, "id": name, "start": start, "end": end, "state": state}
    return {"type": "segment", **what, "epochs": [[0, start]], "ours": ours}


def files(name: str, count: int = 5, *, named: bool = False) -> list[Event]:
    what = {"type": "object", "topic": "t", "topic_id": ID, "id": name, "claimed": True, "named": named}
    return [{**what, "key": f"{name}.{number}"} for number in range(count)]


def honest() -> list[Event]:
    """Three records, read live, and in the end in both isolation levels."""
    records = [record(offset, offset) for offset in range(3)]
    return [
        topic(),
        sent((0, 3)),
        acked((0, 0), (1, 1), (2, 2)),
        *reading("live", "live", *records),
        *reading("final", "final", *records),
        *reading("committed", "final", *records, committed=True),
        partition(),
        segment("one", 0, 1),
        *files("one"),
        {"type": "ran", "words": ["tier"], "exit_code": 0, "killed": False, "hung": False, "seconds": 1, "error": ""},
    ]


def rules(events: list[Event]) -> set[str]:
    return {found.rule for found in violations(Facts.of(events))}


def with_final(*records: list[object], **end: object) -> list[Event]:
    """The honest history, with another end."""
    kept = [each for each in honest() if each["type"] in ("topic", "sent", "acked")]
    live = [record(offset, offset) for offset in range(3)]
    both = [each for name in (False, True) for each in reading(f"f{name}", "final", *records, committed=name)]
    return [*kept, *reading("live", "live", *live), *both, partition(**end)]


def test_an_honest_history_breaks_nothing():
    assert rules(honest()) == set()


def test_an_acknowledged_record_that_nobody_reads_in_the_end_is_lost():
    assert rules(with_final(record(0, 0), record(2, 2))) == {"lost", "vanished"}


def test_what_was_deleted_or_aborted_is_not_missed():
    assert rules(with_final(record(2, 2), log_start=2)) == set()
    aborted = [
        topic(),
        sent((0, 1), "x"),
        acked((0, 0)),
        {"type": "ended", "at": 20, "transaction": "x", "end": "aborted"},
        *reading("final", "final", record(0, 0, transaction="x")),
        *reading("committed", "final", committed=True),
        partition(log_end=2),
    ]
    assert rules(aborted) == set()
    assert rules([*aborted, *reading("late", "live", record(0, 0, transaction="x"), committed=True)]) == {
        "aborted",
        "vanished",
    }


@pytest.mark.parametrize(
    ("skipped_at", "topic_of_it", "found"), [(20, "t", set()), (9, "t", {"aborted"}), (20, "u", {"aborted"})]
)
def test_a_transaction_whose_marker_its_coordinator_left_out_may_end_either_way(
    skipped_at: int, topic_of_it: str, found: set[str]
):
    seen = record(0, 0, transaction="x")
    events = [
        topic(),
        sent((0, 1), "x"),
        acked((0, 0)),
        {"type": "ended", "at": 20, "transaction": "x", "end": "aborted"},
        *reading("live", "live", seen, committed=True),
        *reading("final", "final", seen),
        *reading("committed", "final", seen, committed=True),
        partition(log_end=2),
        {"type": "skipped", "at": skipped_at, "topic": topic_of_it},
    ]
    assert rules(events) == found


def test_a_brokers_log_tells_which_markers_were_left_out(tmp_path: Path):
    output = tmp_path / "broker-1" / "output"
    output.mkdir(parents=True)
    line = (
        "{time} [handler-2] INFO kafka.coordinator.transaction.TransactionMarkerChannelManager - [Transaction Marker "
        "Channel Manager 1]: Couldn't find leader endpoint for partitions Set(a-b-0, c-12) while trying to send "
        "transaction markers for id, these partitions are likely deleted already and hence can be skipped\n"
    )
    (output / "1-2.log").write_text("something else\n" + line.format(time="00:00:01.500"))
    began = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
    assert list(skipped_markers(tmp_path, began)) == [(2500, "a-b"), (2500, "c")]


def test_a_record_at_another_offset_than_was_acknowledged_has_moved():
    moved = with_final(record(0, 0), record(1, 1), record(3, 2), log_end=4)
    assert rules(moved) == {"moved", "vanished"}


def test_of_a_topic_with_an_unclean_election_only_what_the_lineage_has_is_missed():
    events = with_final(record(0, 0), record(1, 1), log_end=2, epochs=((0, 0), (5, 2)))
    events[0] = topic(clean=False)
    assert rules(events) == set(), "offset 2 was cut off"
    kept = with_final(record(0, 0), record(2, 2))
    kept[0] = topic(clean=False)
    assert rules(kept) == {"vanished"}, "offset 1 is of a leader epoch that the log still has"


@pytest.mark.parametrize(("epochs", "found"), [(((0, 0), (5, 2)), set()), (((0, 0), (5, 3)), {"vanished"})])
def test_an_unclean_election_may_cut_off_a_marker_and_no_other_but_the_last(epochs: tuple, found: set[str]):
    """At offset 1 a record that a reader had as committed, at 2 the producer's next transaction."""
    all_of_it = [record(0, 0), record(1, 1, transaction="T"), record(2, 2, transaction="U")]
    events = [
        topic(clean=False),
        sent((0, 3)),
        *reading("live", "live", *all_of_it[:2], committed=True),
        *reading("whole", "final", *all_of_it),
        *reading("final", "final", all_of_it[0], committed=True),
        partition(epochs=epochs),
    ]
    assert rules(events) == found


@pytest.mark.parametrize(("epochs", "found"), [(((0, 0), (5, 2)), set()), (((0, 0), (5, 3)), {"aborted"})])
def test_where_an_election_cut_off_an_abort_the_producers_next_commit_counts(epochs: tuple, found: set[str]):
    all_of_it = [record(0, 0), record(1, 1, transaction="T"), record(2, 2, transaction="U")]
    events = [
        topic(clean=False),
        sent((0, 3)),
        {"type": "ended", "at": 50, "transaction": "T", "end": "aborted"},
        *reading("whole", "final", *all_of_it),
        *reading("final", "final", *all_of_it, committed=True),
        partition(epochs=epochs),
    ]
    assert rules(events) == found
    events[0] = topic(clean=True)
    assert "aborted" in rules(events)


def test_a_record_that_is_read_twice_is_a_duplicate():
    again = [*honest(), *reading("again", "live", record(0, 0), record(1, 1), record(5, 1))]
    assert "duplicate" in rules(again)


def test_an_offset_with_two_records_under_one_leader_epoch_is_inconsistent():
    other = [*honest(), *reading("other", "live", record(0, 0), record(1, 2))]
    assert "inconsistent" in rules(other)
    unclean = [*honest(), *reading("other", "live", record(1, 2, epoch=3))]
    unclean[0] = topic(clean=False)
    assert rules(unclean) == set(), "of another epoch, before the election"


def test_a_reader_that_is_taken_back_is_found():
    assert "backwards" in rules([*honest(), *reading("back", "live", record(1, 1), record(0, 0))])


def test_a_record_that_nobody_sent_is_found():
    assert "never sent" in rules([*honest(), *reading("made up", "live", record(0, 7))])


def test_a_transaction_of_which_a_part_is_missing_is_torn():
    of_it = [record(0, 0, transaction="x"), record(1, 1, transaction="x")]
    events = [
        topic(),
        sent((0, 2), "x"),
        acked((0, 0), (1, 1)),
        {"type": "ended", "at": 20, "transaction": "x", "end": "unknown"},
        *reading("final", "final", *of_it),
        partition(),
    ]
    assert rules([*events, *reading("committed", "final", *of_it, committed=True)]) == set()
    assert rules([*events, *reading("committed", "final", of_it[0], committed=True)]) == {"torn"}
    assert rules([*events, *reading("committed", "final", committed=True)]) == set(), "it was aborted"


def test_what_was_trimmed_before_a_reader_began_does_not_come_back():
    trimmed = {"type": "trimmed", "at": 50, "topic": "t", "generation": 1, "before": 2}
    assert rules([*honest(), trimmed]) == {"came back"}
    assert rules([*honest(), {**trimmed, "at": 150}]) == set(), "readers that had begun may have had it"
    unclean = [{**each, "clean": False} if each["type"] == "topic" else each for each in [*honest(), trimmed]]
    assert rules(unclean) == set(), "the replica that was elected did not know"


def test_what_was_of_a_deleted_topic_does_not_come_back():
    assert "came back" in rules([*honest(), topic(at=50, generation=2)])


def test_two_visible_copies_of_which_one_is_ours_are_one_too_many():
    ours = [*honest(), segment("two", 0, 1, ours=False), *files("two")]
    assert rules(ours) == {"two copies"}
    inside = [*honest(), segment("two", 0, 2, ours=False), *files("two")]
    assert rules(inside) == {"two copies"}
    overlapping = [*honest(), segment("two", 1, 2, ours=False), *files("two")]
    assert rules(overlapping) == set(), "a leader that rolled elsewhere"
    deleted = [*honest(), segment("two", 0, 1, state="DELETE_SEGMENT_FINISHED")]
    assert rules(deleted) == set()


def test_a_file_of_no_known_segment_is_found_unless_it_is_named():
    assert rules([*honest(), *files("stray", 1)]) == {"unknown object"}
    assert rules([*honest(), *files("stray", 1, named=True)]) == set()
    deleted = [*honest(), segment("gone", 2, 2, state="DELETE_SEGMENT_FINISHED"), *files("gone", 1)]
    assert rules(deleted) == {"unknown object"}


def test_a_visible_segment_without_all_its_files_is_found():
    assert rules([*honest(), segment("bare", 2, 2), *files("bare", 2)]) == {"missing objects"}


def test_a_snapshot_of_ours_that_lacks_a_producer_of_the_log_is_wrong():
    known, older = [7, 0, 19, 19, 19, 5, -1, -1], [3, 0, 4, 4, 4, 5, -1, -1]
    snapshot = {"type": "snapshot", "topic": "t", "id": "one", "ours": True, "offset": 2, "folded": [known]}
    assert rules([*honest(), {**snapshot, "entries": [known, older]}]) == set()
    for wrong in ([], [[*known[:2], 18, *known[3:]]]):
        assert rules([*honest(), {**snapshot, "entries": wrong}]) == {"wrong snapshot"}
        assert rules([*honest(), {**snapshot, "entries": wrong, "ours": False}]) == set(), "Kafka's own"


def test_what_a_broker_had_lost_before_is_not_asked_of_the_copies_behind_it():
    lost, writes = [3, 0, 4, 4, 4, 5, -1, -1], [7, 0, 19, 19, 19, 5, -1, -1]
    brokers = {"type": "snapshot", "topic": "t", "id": "one", "ours": False, "offset": 2, "folded": [lost, writes]}
    ours = {**brokers, "ours": True, "offset": 3, "entries": [writes]}
    assert rules([*honest(), {**brokers, "entries": [writes]}, ours]) == set()
    assert rules([*honest(), {**brokers, "entries": [lost]}, ours]) == {"wrong snapshot"}
    wrote_since = {**ours, "folded": [[*lost[:3], 20, *lost[4:]], writes]}
    assert rules([*honest(), {**brokers, "entries": [writes]}, wrote_since]) == {"wrong snapshot"}


def test_closed_segments_that_stay_local_are_found_where_tiersnap_was_at_work():
    left = [partition(active=3) if each["type"] == "partition" else each for each in honest()]
    assert rules(left) == {"stuck"}
    assert rules([each for each in left if each["type"] != "ran"]) == set(), "a control run: Kafka's own"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"exit_code": 1}, "unexpected end"),
        ({"exit_code": 3, "error": "Traceback (most recent call last)"}, "unexpected end"),
        ({"exit_code": None, "hung": True}, "hangs"),
    ],
)
def test_a_command_that_ends_oddly_is_found(change, rule):
    command = {"type": "ran", "words": ["tier"], "killed": False, "hung": False, "seconds": 1, "error": "", **change}
    assert rules([*honest(), command]) == {rule}
    assert rules([*honest(), {**command, "exit_code": None, "killed": True, "hung": False}]) == set()


def test_a_history_is_judged_from_its_file_up_to_a_line_that_was_cut(tmp_path, capsys):
    path = tmp_path / "history.jsonl"
    lines = [json.dumps({"at": 0, **event}) + "\n" for event in [*honest(), segment("two", 0, 1), *files("two")]]
    path.write_text("".join(lines) + '{"type": "seg')
    assert {found.rule for found in judge(path)} == {"two copies"}
    assert "two copies: 1" in capsys.readouterr().out


def test_what_the_control_run_broke_as_well_stands_beside_it(tmp_path, capsys):
    twice = [*honest(), *reading("again", "live", record(0, 0), record(1, 1), record(5, 1))]
    paths = tmp_path / "run.jsonl", tmp_path / "control.jsonl"
    for path, told in zip(paths, ([*twice, segment("two", 0, 1), *files("two")], twice), strict=True):
        path.write_text("".join(json.dumps({"at": 0, **event}) + "\n" for event in told))
    assert {found.rule for found in judge(*paths)} >= {"duplicate", "two copies"}, "both are counted"
    said = capsys.readouterr().out
    assert "duplicate: 1; without tiersnap: 1" in said
    assert "two copies: 1; without tiersnap: 0" in said


def test_a_seed_gives_the_same_faults_and_each_kind_comes_before_any_comes_again():
    first = schedule(7, 20)
    assert first == schedule(7, 20)
    assert first != schedule(8, 20)
    assert {fault.name for fault in first[: len(FAULTS)]} == set(FAULTS)
    assert all(one.at < other.at <= 1200 for one, other in itertools.pairwise(first))


def test_a_clock_that_is_set_is_what_a_process_sees(tmp_path):
    clock = Clock(tmp_path / "clock")
    if not clock.can_jump:
        pytest.skip("no libfaketime here")
    for hours in (0, 7, -11):
        clock.set(hours)
        said = subprocess.run(["date", "+%s"], env=clock.environment, capture_output=True, text=True, check=True).stdout
        assert abs(int(said) - time.time() - 3600 * hours) < 60
