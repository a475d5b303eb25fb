"""`tiersnap simulate`: KIP-952's example, every start, and random logs against one producer at a time."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference.broker_process import started_broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.kip952_log import LOG_END, NOW, write_kip952_log
from tests.reference.lost_segment_log import SEGMENTS
from tests.reference.producer_entry import after_batch, after_marker, after_restart
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.append import append
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, CLIENT_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import (
    LARGEST_SEQUENCE,
    EndMarker,
    NextBatch,
    ProducerEntry,
    next_sequence,
)
from tiersnap.snapshot.exactly_once.models.verification import CheckResult, TransactionCheck
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin, Write
from tiersnap.snapshot.exactly_once.simulate.outcomes import Tally, outcomes
from tiersnap.snapshot.exactly_once.simulate.replica import Replicas, ReplicaSnapshot, replicas
from tiersnap.snapshot.exactly_once.simulate.replica_state import (
    BATCH_DTYPE,
    ReplicaState,
    cached_by_broker,
    data_batches,
    entry_batches,
    newest_batches,
)
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, WriteClass, next_writes, what_if
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning, CopyState

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[2] / "data"
AT = ("--now", "2026-11-21T12:45:00Z")


def simulate(log_dir: Path, *words: str | Path):
    return tiersnap("simulate", log_dir, "--now", str(NOW), *words)


def test_kip_952s_example_ends_as_the_kip_says_and_needs_no_new_producer_id_for_it(tmp_path):
    write_kip952_log(tmp_path)

    ran = simulate(tmp_path, "--from", "empty", "--at", "200", "--broker", "3.6")

    assert_said(ran, 0)
    assert "it would lack 2 of 4 producers, write the last batch of 2 producers twice" in ran.out
    # The caveat: the KIP lets the broker ask for a new producer id, and a first batch is taken in every era at once.
    again = ran.row(write="RETRY_OF_LAST")
    assert (again["writes"], again["replica_answer"], again["doubles"]) == (2, "ACCEPT", True)
    assert again["reaction"] == "success"


def test_kip_952s_example_goes_as_its_authors_tell_it_only_on_old_brokers_and_later_batches(tmp_path):
    write_kip952_log(tmp_path, first_sequence=5)

    ran = simulate(tmp_path, "--from", "empty", "--at", "200", "--broker", "2.3", "--client", "2.3", "--producers")
    told = ran.row(producer_id=1, write="RETRY_OF_LAST")
    rows = simulate(tmp_path, "--from", "empty", "--at", "200", "--broker", "2.3", "--client", "2.3").rows
    (reaction,) = {row["reaction"] for row in rows if row["replica_answer"] == "UNKNOWN_PRODUCER_ID"}

    assert told["replica_answer"] == "UNKNOWN_PRODUCER_ID"
    assert reaction == "fail+id"  # a new producer id: what the application sends again is a new record to the broker


@pytest.mark.parametrize(
    ("start", "known"),
    [
        (("--from", "broker"), {1, 2, 3, 4}),
        (("--from", "older"), {1, 2, 3, 4}),
        (("--from", "ours"), {1, 2, 3, 4}),
        (("--from", "ours", "--at", "100"), {1, 2, 3, 4}),
        (("--from", "empty"), set()),
        (("--from", "empty", "--at", "100"), {2, 3, 4}),
        (("--from", "empty", "--at", "0"), {1, 2, 3, 4}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_replica_knows_what_its_snapshot_and_the_log_after_it_say(tmp_path, start, known):
    write_kip952_log(tmp_path)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0

    ran = simulate(tmp_path, *start, "--all", "--broker", "4.1", "--client", "4.1")

    assert_said(ran, 0)
    following = [row for row in ran.rows if row["write"] == "NEXT"]
    assert sum(row["writes"] for row in following) == 4
    assert sum(row["writes"] for row in following if row["known"]) == len(known)


def test_a_replica_with_a_right_snapshot_answers_as_the_leader_but_for_older_batches(tmp_path):
    ran = tiersnap(
        "simulate", DATA / "kafka-3.9.1" / "logs", "--topic", "orders|payments|fenced", "--from", "ours", *AT
    )

    assert_said(ran, 0)
    assert {row["write"] for row in ran.rows} <= {"RETRY_OF_OLDER", "RESET_TO_ZERO"}
    assert not any(row["doubles"] for row in ran.rows)
    assert "it would lack none of" in ran.out
    assert "append nothing twice, and refuse" in ran.out


def test_another_replicas_newest_readable_file_is_taken_and_what_is_passed_over_is_said(tmp_path):
    log_dir, other = tmp_path / "log", tmp_path / "other"
    write_kip952_log(log_dir)
    (other / "kip952-0").mkdir(parents=True)
    empty = snapshot_file.encode(snapshot_file.decode(bytes.fromhex("000148674bc700000000")))
    (other / "kip952-0" / snapshot_file.file_name(200)).write_bytes(empty)
    (other / "kip952-0" / snapshot_file.file_name(300)).write_bytes(b"no snapshot")
    (other / "kip952-0" / snapshot_file.file_name(LOG_END + 50)).write_bytes(empty)

    ran = simulate(log_dir, "--from", str(other), "--broker", "4.1")

    assert_said(ran, 0, "a broker ignores this snapshot file: 00000000000000000300.snapshot")
    assert {(row["origin"], row["at"]) for row in ran.rows} == {("another", 200)}
    assert "it would lack 2 of 4 producers" in ran.out


def test_producers_that_every_broker_has_dropped_are_left_out_and_counted(tmp_path):
    write_kip952_log(tmp_path)

    ran = tiersnap("simulate", tmp_path, "--from", "empty", "--now", str(lb.TIMESTAMP + 2 * 86_400_000))

    assert_said(ran, 0, "kip952-0: 4 producers are left out")
    assert "no producer would be affected" in ran.out


@pytest.mark.parametrize("base", [200, 400], ids=["closed segment", "first batch of the active segment"])
def test_a_damaged_log_is_a_finding_and_no_guess(tmp_path, base):
    folder = write_kip952_log(tmp_path)
    path = folder / f"{base:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    ran = simulate(tmp_path, "--from", "empty")

    assert_said(ran, 5, "BAD_CRC", "kip952-0: not simulated")
    assert ran.rows == []


def test_a_log_that_ends_before_another_replicas_files_is_simulated_from_what_it_has(tmp_path):
    other = tmp_path / "other" / "kip952-0"
    other.mkdir(parents=True)
    (other / snapshot_file.file_name(9_000)).write_bytes(bytes.fromhex("000148674bc700000000"))
    write_kip952_log(tmp_path / "log")

    ran = simulate(tmp_path / "log", "--from", str(other.parent), "--all", "--broker", "4.1")

    assert_said(ran, 0)
    assert {row["at"] for row in ran.rows} == {0}  # nothing of it can be loaded: the whole log is replayed


def test_a_partition_without_a_record_has_nobody_to_notice(tmp_path):
    lb.write_partition(tmp_path, "bare", 0, {0: []}, high_watermark=0)

    ran = simulate(tmp_path, "--from", "ours")

    assert_said(ran, 0)
    assert (ran.rows, "no producer would be affected" in ran.out) == ([], True)


def test_as_lines_the_sentence_is_the_last_line_behind_the_rows(tmp_path):
    write_kip952_log(tmp_path)

    ran = tiersnap("simulate", tmp_path, "--from", "empty", "--now", str(NOW), output="jsonl")

    assert_said(ran, 0)
    *rows, last = map(json.loads, ran.out.splitlines())
    assert rows
    assert all("partition" in row for row in rows)
    assert last["summary"]["summary"].startswith("If this replica became leader now")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "nowhere"), "the directory does not exist"),
        (("--from", "ours", "--at", "150"), "offset 150 is neither the end of a segment nor the offset"),
        (("--broker", "0.10"), "0.11"),
        (("--client", "new"), "not a release"),
    ],
)
def test_what_cannot_be_simulated_is_a_usage_error(tmp_path, words, said):
    write_kip952_log(tmp_path)
    assert_said(simulate(tmp_path, *words), 2, said)


def test_an_older_snapshot_is_the_one_before_that_which_a_broker_would_load(tmp_path):
    write_kip952_log(tmp_path)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    began = {
        origin: {row["at"] for row in simulate(tmp_path, "--from", origin, "--all", "--broker", "4.1").rows}
        for origin in ("broker", "older")
    }
    assert began == {"broker": {LOG_END}, "older": {300}}


def test_at_limits_which_file_a_replica_begins_with(tmp_path):
    write_kip952_log(tmp_path)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    rows = simulate(tmp_path, "--from", "broker", "--at", "250", "--all", "--broker", "4.1").rows
    assert {row["at"] for row in rows} == {200}


def test_only_the_producers_that_expired_are_left_out(tmp_path):
    day = 86_400_000
    segments = {
        0: [lb.data_batch(0, 1, 1, 0, 0, timestamp=NOW - 2 * day), lb.data_batch(1, 1, 2, 0, 0, timestamp=NOW)],
        2: [lb.data_batch(2, 1)],
    }
    lb.write_partition(tmp_path, "idle", 0, segments, high_watermark=3)

    ran = simulate(tmp_path, "--from", "empty", "--at", "2")

    assert_said(ran, 0, "idle-0: 1 producer is left out")
    assert "it would lack 1 of 1 producer" in ran.out


def write_class(write: Write, leader: Answer, replica: Answer, *, known: bool = True, count: int = 1) -> WriteClass:
    name = BROKER_ERAS[-1].name
    return WriteClass(write, False, known, np.arange(count), 0, 9, {name: leader}, {name: replica})


ACCEPT, AGAIN, REFUSED = Answer.ACCEPT, Answer.DUPLICATE_ACK, Answer.OUT_OF_ORDER_SEQUENCE_NUMBER
STALE = Answer.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ([], "no producer would be affected: none is active."),
        (
            [(Write.NEXT, ACCEPT, ACCEPT)],
            "it would lack none of 1 producer, and append nothing twice (brokers 4.3-4.4).",
        ),
        (
            [(Write.NEXT, ACCEPT, ACCEPT), (Write.RETRY_OF_LAST, AGAIN, ACCEPT)],
            "it would lack none of 1 producer, and write the last batch of 1 producer twice if the producers sent "
            "it again",
        ),
        (
            [(Write.NEXT, ACCEPT, ACCEPT), (Write.RETRY_OF_OLDER, AGAIN, ACCEPT)],
            "it would lack none of 1 producer, and write 1 older batch twice if the producers sent them again (",
        ),
        (
            [(Write.NEXT, ACCEPT, REFUSED), (Write.RETRY_OF_OLDER, AGAIN, REFUSED)],
            "it would lack none of 1 producer, append nothing twice, refuse the next batch of 1 producer, and refuse 1 "
            "batch that the leader would acknowledge as duplicates (",
        ),
        (
            [
                (Write.NEXT, ACCEPT, ACCEPT),
                (Write.ZOMBIE_EPOCH, STALE, ACCEPT),
                (Write.RETRY_BEFORE_BUMP, STALE, STALE),
            ],
            "it would lack none of 1 producer, append nothing twice, and let 1 fenced producer instance write (",
        ),
        ([(Write.NEXT, ACCEPT, ACCEPT), (Write.ZOMBIE_EPOCH, STALE, STALE)], "and append nothing twice ("),
        # Only what the leader would do otherwise counts.
        ([(Write.NEXT, REFUSED, REFUSED)], "it would lack none of 1 producer, and append nothing twice ("),
        (
            [
                (Write.NEXT, ACCEPT, ACCEPT),
                (Write.ZOMBIE_EPOCH, AGAIN, STALE),
                (Write.ZOMBIE_EPOCH, ACCEPT, ACCEPT),
            ],
            "it would lack none of 1 producer, and append nothing twice (",
        ),
    ],
)
def test_the_sentence_says_what_the_replica_would_do_otherwise(classes, said):
    tally = Tally()
    tally.add((write_class(*each) for each in classes), BROKER_ERAS[-1])
    assert said in tally.sentence(BROKER_ERAS[-1])


@pytest.mark.parametrize("is_ongoing", [False, True])
@pytest.mark.parametrize("write", Write)
def test_a_coordinator_verifies_what_its_transaction_may_send_and_fences_lower_epochs(write, is_ongoing):
    fenced = {Write.ZOMBIE_EPOCH, Write.RETRY_BEFORE_BUMP}
    ended = {Write.RETRY_OF_LAST, Write.RETRY_OF_OLDER}  # no transaction names the partition any more
    said = (
        CheckResult.FENCED
        if write in fenced
        else CheckResult.PARTITION_MISSING
        if write in ended
        else CheckResult.VERIFIED
    )
    told = CheckResult.VERIFIED if is_ongoing and said is not CheckResult.FENCED else said
    assert write.coordinator_says(is_ongoing=is_ongoing) is told
    assert write.is_retry == (write in {Write.RETRY_OF_LAST, Write.RETRY_OF_OLDER, Write.RETRY_BEFORE_BUMP})


def test_only_a_retry_under_another_name_may_double_later(tmp_path):
    """A client that is told UNKNOWN_PRODUCER_ID takes the next epoch, in which no broker knows the batch again."""
    write_kip952_log(tmp_path, first_sequence=5)
    rows = simulate(tmp_path, "--from", "empty", "--at", "200", "--broker", "2.4", "--client", "2.5", "--all").rows
    told = {(row["write"], row["reaction"]): row["may_double_later"] for row in rows}
    assert told["RETRY_OF_LAST", "bump"]
    assert not told["RETRY_OF_LAST", "success"]
    assert not told["NEXT", "bump"], "what it sends was not written"


def entries_of(*rows: tuple) -> np.ndarray:
    """ENTRY_DTYPE: producer id, epoch, last sequence, last offset, offset delta."""
    return np.array([(*row, NOW, -1, -1) for row in rows], ENTRY_DTYPE)


def batches_of(*rows: tuple[int, int, int]) -> np.ndarray:
    """BATCH_DTYPE: producer id, epoch, offset; of one record each."""
    return np.array([(each, at, at, at, at, epoch, False, 70) for each, epoch, at in rows], BATCH_DTYPE)


def test_an_entry_knows_one_batch_or_none_where_a_marker_is_all_it_saw():
    found = entry_batches(entries_of((1, 2, 1, 10, 3), (2, 0, -1, 11, 0), (3, 0, -1, -1, 0), (4, 0, 7, -1, 0)))
    assert [tuple(row) for row in found] == [(1, 7, 10, LARGEST_SEQUENCE - 1, 1, 2, False, 0)]


@pytest.mark.parametrize(
    ("batches", "cached"),
    [
        ([(1, 2, 5), (1, 2, 6)], [True, True]),
        ([(1, 1, 5), (1, 2, 6)], [False, True]),
        ([(1, 2, 5), (1, 1, 6), (1, 2, 7)], [False, False, True]),
        ([(1, 2, 5), (1, 3, 6)], [False, False]),
        ([(1, 2, 5), (7, 2, 6)], [True, False]),
        ([(3, 0, 6)], [False]),
    ],
)
def test_a_broker_caches_the_batches_since_the_epoch_last_changed(batches, cached):
    """Producer 3 is one of whom no batch is there any more, producer 7 one that nobody knows."""
    state = ReplicaState(entries_of((1, 2, 9, 9, 0), (3, 0, 6, -1, 0)), batches_of(*batches))
    assert cached_by_broker(state).tolist() == cached


@pytest.mark.parametrize(("entries", "batches"), [((), [(1, 0, 5)]), (((1, 2, 9, 9, 0),), [])])
def test_cached_by_broker_is_false_without_entries_or_batches(entries, batches):
    state = ReplicaState(entries_of(*entries), batches_of(*batches))
    assert cached_by_broker(state).tolist() == [False] * len(batches)


def test_entry_batches_knows_a_transaction_from_offset_0():
    found = entry_batches(np.array([(1, 0, 0, 0, 0, NOW, -1, 0)], ENTRY_DTYPE))
    assert found["is_transactional"].tolist() == [True]


def test_data_batches_leaves_out_markers_and_what_has_no_producer():
    rows = np.zeros(4, RECORD_BATCH_DTYPE)
    rows["producer_id"], rows["base_sequence"] = [7, 7, -1, 7], [3, 3, 3, -1]
    rows["attributes"], rows["batch_length"] = [0, 32, 0, 0], 58
    found = data_batches(rows)
    assert found["first_sequence"].tolist() == [3]
    assert found["size_bytes"].tolist() == [70]


def test_next_writes_of_a_zombie_are_of_the_epoch_before():
    state = ReplicaState(entries_of((1, 5, 9, 9, 0)), batches_of((1, 5, 9)))
    (zombie,) = (each for each in next_writes(state) if each.write is Write.ZOMBIE_EPOCH)
    assert zombie.batch[["producer_epoch", "first_offset", "last_offset"]].tolist() == [(4, -1, -1)]


@pytest.mark.parametrize(
    ("write", "leader", "replica", "doubles"),
    [
        (Write.RETRY_OF_LAST, AGAIN, ACCEPT, True),
        (Write.RETRY_OF_LAST, ACCEPT, ACCEPT, False),
        (Write.RETRY_OF_LAST, AGAIN, AGAIN, False),
        (Write.NEXT, REFUSED, ACCEPT, False),
    ],
)
def test_write_class_doubles_only_a_retry_that_the_leader_would_not_append(write, leader, replica, doubles):
    assert write_class(write, leader, replica).doubles(BROKER_ERAS[-1]) is doubles


@pytest.mark.parametrize(("coordinator_epoch", "first_offset", "told"), [(0, -1, True), (-1, 0, True), (-1, -1, False)])
def test_what_if_takes_a_producer_with_a_marker_or_transaction_for_one(coordinator_epoch, first_offset, told):
    entries = np.array([(1, 0, 3, 9, 0, NOW, coordinator_epoch, first_offset)], ENTRY_DTYPE)
    state = ReplicaState(entries, batches_of())
    classes = what_if(state, state, BROKER_ERAS[-1:], Circumstances())
    assert {each.is_transactional for each in classes} == {told}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_if_takes_a_transaction_from_offset_0_as_any_other(version):
    given = Circumstances(transaction_version=version)

    def answers(opened: int) -> list[tuple[Write, dict[str, Answer]]]:
        state = ReplicaState(np.array([(1, 3, 3, 9, 0, NOW, -1, opened)], ENTRY_DTYPE), batches_of((1, 3, 9)))
        return [(each.write, each.leader_answers) for each in what_if(state, state, BROKER_ERAS, given)]

    assert answers(0) == answers(5)


def test_outcomes_add_up_equal_classes_and_tell_a_gap_from_what_follows():
    given = Circumstances()

    def told(*classes: WriteClass) -> dict[str, int]:
        rows = outcomes(classes, [1, 2, 3], BROKER_ERAS[-1:], CLIENT_ERAS[-1:], given)
        return {str(row.reaction): row.writes for row in rows}

    following = [write_class(Write.NEXT, ACCEPT, REFUSED, count=count) for count in (2, 3)]
    gap = write_class(Write.AFTER_GAP, REFUSED, REFUSED)
    assert list(told(*following).values()) == [5]
    assert told(*following).keys().isdisjoint(told(gap))
    assert "retry" in told(gap)


def test_the_newest_five_batches_of_each_producer_are_kept():
    seven = [(1, 0, at) for at in range(7)]
    kept = newest_batches(batches_of(*seven[:4], (2, 0, 3)), batches_of(*seven[4:]))
    assert [(int(row["producer_id"]), int(row["first_offset"])) for row in kept] == [
        *((1, at) for at in range(2, 7)),
        (2, 3),
    ]


# One producer at a time, by the models alone: what the columns of `what_if` must add up to.
@dataclass
class Life:
    """A producer's batches and markers as they are written, and what a leader makes of them."""

    epoch: int = 0
    following: int = 0
    is_open: bool = False
    words: list[tuple[int, NextBatch | EndMarker]] = field(default_factory=list)


def random_log(seed: int, folder: Path) -> tuple[dict[int, Life], int]:
    """A log of a few producers, or of many, which share classes: these, and a segment's base offset."""
    rng = random.Random(seed)
    producers = 6 if seed % 20 else 80
    lives: dict[int, Life] = {}
    segments: dict[int, list[bytes]] = {0: []}
    offset, bases = 0, [0]
    for _ in range(rng.randint(1, 40) if producers == 6 else 400):
        if segments[bases[-1]] and rng.random() < 0.1:
            bases.append(offset)
            segments[offset] = []
        producer_id = rng.randint(1, producers)
        if producer_id not in lives:
            start = rng.choice([0, 0, 3, LARGEST_SEQUENCE - 2])
            lives[producer_id] = Life(rng.choice([0, 2, 32766]), start)
        life = lives[producer_id]
        transactional = producer_id > producers // 2
        count = rng.randint(1, 4)
        if transactional and life.words and rng.random() < 0.3:
            life.epoch = min(life.epoch + rng.choice([0, 1]), 32767)
            if life.words[-1][1].producer_epoch != life.epoch:
                life.following = 0
            marker = EndMarker(life.epoch, rng.randint(0, 2), timestamp=NOW)
            life.words.append((offset, marker))
            entry = lb.marker(offset, producer_id, life.epoch, marker.coordinator_epoch, commit=True, timestamp=NOW)
            life.is_open = False
            count = 1
        else:
            if not life.is_open and rng.random() < 0.1:
                life.epoch, life.following = min(life.epoch + 1, 32767), 0
            last = (life.following + count - 1) & LARGEST_SEQUENCE
            batch = NextBatch(life.epoch, life.following, last, int(transactional))
            life.words.append((offset, batch))
            entry = lb.data_batch(
                offset, count, producer_id, life.epoch, life.following, transactional=transactional, timestamp=NOW
            )
            life.following, life.is_open = next_sequence(last), transactional
        segments[bases[-1]].append(entry)
        offset += count
    lb.write_partition(folder, "random", 0, segments, high_watermark=offset)
    return lives, rng.choice(bases)


def entry_of(life: Life, era: BrokerEra, start: int, *, keeps: bool) -> ProducerEntry | None:
    """The producer as a broker knows it that began with a snapshot at `start`, of everything or of nobody."""
    entry = None
    for offset, word in life.words:
        if offset < start and not keeps:
            continue
        if isinstance(word, EndMarker):
            entry = after_marker(entry, word, era)
        else:
            entry = after_batch(entry, word, era, base_offset=offset)
        following = next((at for at, _ in life.words if at > offset), None)
        if offset < start and (following is None or following >= start):
            entry = after_restart(entry)
    return entry


def writes_of(life: Life, leader: ProducerEntry) -> list[tuple[Write, NextBatch]]:
    epoch = leader.producer_epoch
    version = max((word.transaction_version for _, word in life.words if isinstance(word, NextBatch)), default=1)
    following = next_sequence(leader.last_sequence)
    gap = next_sequence(following)
    writes = [
        (Write.NEXT, NextBatch(epoch, following, following, version)),
        (Write.AFTER_GAP, NextBatch(epoch, gap, gap, version)),
        (Write.RESET_TO_ZERO, NextBatch(epoch, 0, 0, version)),
    ]
    if epoch < 32767:
        writes.append((Write.BUMPED_EPOCH, NextBatch(epoch + 1, 0, 0, version)))
    if epoch > 0:
        writes.append((Write.ZOMBIE_EPOCH, NextBatch(epoch - 1, 0, 0, version)))
    newest = [word for _, word in life.words if isinstance(word, NextBatch)][-5:]
    cached = [(each.first_sequence, each.last_sequence) for each in leader.batches]
    for number, batch in enumerate(newest):
        if batch.producer_epoch < epoch:
            writes.append((Write.RETRY_BEFORE_BUMP, batch))
        elif (batch.first_sequence, batch.last_sequence) in cached:
            is_last = number == len(newest) - 1
            writes.append((Write.RETRY_OF_LAST if is_last else Write.RETRY_OF_OLDER, batch))
    return writes


def is_gone(state: ReplicaState, producer_id: int, log_start: int) -> bool:
    """Whether all records of a producer lie below the log start, so that brokers before 2.4 forget it."""
    known = state.entries.compress(state.entries["producer_id"] == producer_id)
    return bool(log_start) and bool((known["last_offset"] < log_start).any())


@pytest.mark.parametrize("origin", [SnapshotOrigin.OURS, SnapshotOrigin.EMPTY])
def test_random_logs_are_simulated_as_one_producer_after_the_other_would_be(tmp_path, origin):
    live_era = BROKER_ERAS[-1]
    for seed in range(60):
        folder = tmp_path / str(seed)
        lives, at = random_log(seed, folder)
        log_dir = open_log_dir(str(folder))
        (partition,) = selected(log_dir, str(folder), None)
        snapshot = ReplicaSnapshot(origin, at=at)
        found = replicas(log_dir.filesystem, partition, snapshot, Expiry(None, NOW), producer_expiration=None)
        given = Circumstances(*random.Random(seed).choice([(0, 1), (0, 2), (at, 1), (at // 2, 2)]))
        classes = list(what_if(found.leader, found.replica, BROKER_ERAS, given))

        wanted: Counter = Counter()
        for producer_id, life in lives.items():
            # Both remember what a live broker of today does; the model looks at as many as the era has.
            leader = entry_of(life, live_era, 0, keeps=True)
            replica = entry_of(life, live_era, at, keeps=origin is SnapshotOrigin.OURS)
            gone = [is_gone(state, producer_id, given.log_start_offset) for state in (found.leader, found.replica)]
            for write, batch in writes_of(life, leader):
                said = TransactionCheck(write.coordinator_says(is_ongoing=leader.txn_first_offset is not None))
                for era in BROKER_ERAS:
                    version = given.transaction_version if era.speaks_version_2 else 1
                    sent = replace(batch, transaction_version=min(batch.transaction_version, 1) * version)
                    answers = [
                        append(None if lost and era.forgets_deleted else entry, sent, era, verification=said).answer
                        for entry, lost in zip((leader, replica), gone, strict=True)
                    ]
                    wanted[write, era.name, *answers] += 1
        counted: Counter = Counter()
        for each in classes:
            for era in BROKER_ERAS:
                answers = each.leader_answers[era.name], each.replica_answers[era.name]
                counted[each.write, era.name, *answers] += each.members.size
        assert (seed, counted) == (seed, wanted)
        listed = outcomes(classes, found.leader.entries["producer_id"].tolist(), BROKER_ERAS, CLIENT_ERAS, given)
        assert {each.answers.write for each in listed} == {write for write, *_ in counted}


def test_clients_are_told_apart_by_what_they_were_acknowledged_and_by_their_epoch(tmp_path):
    """One producer's records are deleted, another's are not, a third has no epoch left."""
    segments = {
        0: [lb.data_batch(0, 2, 1, 0, 5, timestamp=NOW)],
        2: [lb.data_batch(2, 2, 2, 0, 5, timestamp=NOW), lb.data_batch(4, 2, 3, 32767, 5, timestamp=NOW)],
        6: [lb.data_batch(6, 1)],
    }
    lb.write_partition(tmp_path, "trimmed", 0, segments, high_watermark=7, log_start_offset=2)

    ran = simulate(tmp_path, "--from", "empty", "--at", "6", "--broker", "2.4")

    told = {
        (row["example"], row["clients"]): row["reaction"]
        for row in ran.rows
        if row["write"] == "NEXT" and row["replica_answer"] == "UNKNOWN_PRODUCER_ID"
    }
    assert told[2, "1.0-2.4"] == "fail+id"
    assert (told[2, "2.5-4.4"], told[3, "2.5-4.4"]) == ("bump", "new id")


def both_of(folder: Path, begins: Beginning) -> Replicas:
    log_dir = open_log_dir(str(folder))
    (partition,) = selected(log_dir, str(folder), None)
    ours = ReplicaSnapshot(SnapshotOrigin.OURS)
    return replicas(log_dir.filesystem, partition, ours, Expiry(None, NOW), producer_expiration=None, begins=begins)


@pytest.mark.parametrize("is_believed", [True, False])
def test_replicas_know_the_log_only_when_its_remote_state_fits_the_files(tmp_path, is_believed):
    segments = {10: [lb.data_batch(10, 5, 1, 0, 0)], 20: [lb.data_batch(20, 5, 2, 0, 0)]}
    lb.write_partition(tmp_path, "orders", 0, segments, high_watermark=25)
    copy = CopyState(20, np.empty(0, ENTRY_DTYPE), lambda _: is_believed)
    assert both_of(tmp_path, Beginning(is_continued=True, copy=copy)).is_whole is is_believed


def test_replicas_know_the_log_behind_lost_offsets(tmp_path):
    folder = lb.write_partition(tmp_path, "orders", 0, SEGMENTS, high_watermark=45, indexes=True)
    (folder / f"{20:020d}.log").unlink()
    found = both_of(tmp_path, NOT_LOOKED)
    assert "OFFSETS_MISSING" in {each.finding_kind for each in found.findings}
    assert found.is_whole


def test_simulate_calls_no_duplicate_and_no_hidden_loss_a_success(tmp_path):
    write_kip952_log(tmp_path)
    words = ("simulate", tmp_path, "--now", str(NOW), "--from", "empty", "--at", "200", "--broker", "3.6")
    ran = tiersnap(*words, output="table")
    assert_said(ran, 0)
    effects = {line.split("  ")[-1].strip() for line in ran.out.splitlines() if "RETRY_OF_LAST" in line}
    assert effects == {"duplicate, unnoticed"}
    assert {line.split("  ")[-1].strip() for line in ran.out.splitlines() if "AFTER_GAP" in line} == {"loss, unnoticed"}
    assert (
        "accept a later batch of 2 producers although a batch before it was lost, which hides the loss"
        in tiersnap(*words).out
    )


def test_simulate_answers_for_the_broker_that_runs_in_the_log_directory(tmp_path):
    write_kip952_log(tmp_path)
    words = ("simulate", tmp_path, "--now", str(NOW), "--from", "empty", "--at", "200")
    assert len({row["brokers"] for row in tiersnap(*words).rows}) > 1
    with started_broker(tmp_path, "server.properties", "-cp", "/opt/kafka/libs/kafka-server-4.1.1.jar"):
        beside = tiersnap(*words)
    assert beside.rows == tiersnap(*words, "--broker", "4.1").rows
