import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.listed_claims import list_claims
from tests.reference.lying_store import LyingStore
from tests.unit.test_claims_interleaved import ELSEWHERE, NEVER_STALE, PARTITION, SEGMENT, attempt, new_id
from tiersnap.remote_storage.errors import ClaimedError, ObjectChangedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim import (
    MAX_ATTEMPTS,
    Attempt,
    Claim,
    ClaimedSegment,
    ClaimedSnapshot,
)
from tiersnap.remote_storage.locks.claim_protocol import (
    STALE_AFTER_MS,
    claim,
    claimed_segments,
    finish,
    is_still_ours,
    may_take_over,
    read_claim,
    read_claim_and_age,
    release,
    reopen,
)
from tiersnap.remote_storage.locks.process import Process, is_gone, this_process
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, TransientError, UsageError

pytestmark = pytest.mark.unit

KEY = keys.claim(PARTITION, SEGMENT.base_offset, SEGMENT.leader_epoch)


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


# --- what a claim says

texts = st.text(max_size=40)
segment_ids = st.builds(new_id)
processes = st.builds(Process, texts, st.integers(0, (1 << 31) - 1), texts)
attempts = st.builds(Attempt, segment_ids, texts, st.none() | texts, processes, st.booleans())
snapshots = st.builds(ClaimedSnapshot.of, st.integers(0, (1 << 32) - 1), texts, texts)
claims = st.builds(
    lambda known, done, snapshot, kept: Claim(
        attempts=tuple(known), finished=known[-1].segment_id if done else None, snapshot=snapshot, kept=tuple(kept)
    ),
    st.lists(attempts, min_size=1, max_size=5),
    st.booleans(),
    st.none() | snapshots,
    st.lists(segment_ids, max_size=2),
)


@given(claims)
def test_a_claim_is_read_as_it_was_written(found):
    assert Claim.decode(found.encode(), name="claim") == found


def test_a_claim_is_the_json_that_the_documents_show():
    mine = Attempt.of("tqimKeZwStOEOwRzT3L5oQ", "r1", None, Process("host", 7, "boot/1/2"))
    held = Claim.of(mine).finished_by_holder(ClaimedSnapshot.of(0xAB, "COMPUTED", "MATCHES"))
    assert json.loads(held.encode()) == {
        "version": 1,
        "attempts": [
            {
                "segmentId": "tqimKeZwStOEOwRzT3L5oQ",
                "runId": "r1",
                "warehouse": None,
                "process": {"host": "host", "pid": 7, "processStart": "boot/1/2"},
                "ended": False,
            }
        ],
        "finished": "tqimKeZwStOEOwRzT3L5oQ",
        "snapshot": {"crc32c": "000000ab", "provenance": "COMPUTED", "verdict": "MATCHES"},
        "kept": [],
    }


def changed(**changes: object) -> bytes:
    return json.dumps(json.loads(Claim.of(attempt("r")).encode()) | changes).encode()


def with_attempt(**changes: object) -> bytes:
    row = json.loads(Claim.of(attempt("r")).encode())["attempts"][0]
    return changed(attempts=[row | changes])


def with_process(**changes: object) -> bytes:
    return with_attempt(process={"host": "here", "pid": 1, "processStart": ""} | changes)


def test_a_claim_of_any_process_is_read() -> None:
    assert Claim.decode(with_process(), name="claim").holder.process == Process("here", 1, "")


NO_CLAIMS = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"{}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 5000,
    b" " * (Claim.limit + 1),
    changed(version=2),
    changed(version=True),
    changed(more=1),
    changed(attempts=[]),
    changed(attempts={}),
    changed(attempts=[None]),
    changed(finished=new_id()),
    changed(finished="x"),
    changed(snapshot=[]),
    changed(snapshot={"crc32c": "1", "provenance": "", "verdict": ""}),
    changed(snapshot={"crc32c": "+0000001", "provenance": "", "verdict": ""}),
    changed().replace(b'"pid": 1', b'"pid": Infinity'),
    changed().replace(b'"pid": 1', b'"pid": 1.0'),
    with_process(pid=True),
    with_process(pid=-1),
    with_process(pid=1 << 31),
    with_attempt(ended=0),
    with_process(host=None),
    with_process(host="x" * 1025),
    with_attempt(segmentId="../../etc"),
    with_attempt(warehouse=1),
    changed(attempts=json.loads(changed())["attempts"] * (MAX_ATTEMPTS + 1)),
]


@pytest.mark.parametrize("data", NO_CLAIMS, ids=map(str, range(len(NO_CLAIMS))))
def test_what_is_no_claim_is_named_and_not_taken_for_one(store, data):
    store.put_if_absent(KEY, data)
    for use in (
        lambda: claim(store, SEGMENT, attempt("r")),
        lambda: read_claim(store, SEGMENT),
        lambda: list(list_claims(store, PARTITION)),
    ):
        with pytest.raises(CorruptDataError, match=KEY):
            use()
    assert store.get(KEY) == data
    assert list(claimed_segments(store, PARTITION)) == [SEGMENT]


def test_read_claim_reads_again_when_a_byte_flipped(store):
    lying = LyingStore(store)
    held = claim(lying, SEGMENT, attempt("r1"))
    lying.flips[KEY] = 1
    assert read_claim(lying, SEGMENT) == held.claim
    assert lying.reads == [KEY, KEY]


def test_read_claim_calls_it_damage_when_damaged_twice(store):
    lying = LyingStore(store)
    claim(lying, SEGMENT, attempt("r1"))
    lying.flips[KEY] = 2
    with pytest.raises(CorruptDataError, match="not a claim that this tiersnap can read"):
        read_claim(lying, SEGMENT)
    assert lying.reads == [KEY, KEY]


@given(st.binary(max_size=200) | st.builds(lambda text: text.encode(), st.text(max_size=200)))
def test_no_bytes_are_read_with_another_error(data):
    with pytest.raises(CorruptDataError):
        Claim.decode(data, name="claim")


@pytest.mark.parametrize("wrong", [{"segment_id": "x"}, {"run_id": "x" * 1025}, {"warehouse": "x" * 1025}])
def test_what_no_claim_could_say_is_not_attempted(wrong):
    with pytest.raises(UsageError):
        Attempt.of(**{"segment_id": new_id(), "run_id": "r"} | wrong)


def test_of_very_many_attempts_the_newest_are_kept(store):
    known = [attempt("one task") for _ in range(MAX_ATTEMPTS + 3)]
    for mine in known:
        held = claim(store, SEGMENT, mine)
    assert held.claim.attempts == read_claim(store, SEGMENT).attempts == tuple(known[3:])


# --- who may take over


def test_a_claim_that_is_held_says_by_whom_and_since_when(store):
    mine = attempt("run-1", "s3://tables/x")
    claim(store, SEGMENT, mine)
    os.utime(store.root / KEY, (1_800_000_000, 1_800_000_000))
    with pytest.raises(ClaimedError) as raised:
        claim(store, SEGMENT, attempt("run-2", "s3://other/x"), stale_after_ms=10**15)
    assert raised.value.exit_code is ExitCode.TRANSIENT
    assert isinstance(raised.value, TransientError)
    for word in ("run-1", "s3://tables/x", "another-host", "2027-01-15 08:00:00", "payments"):
        assert word in raised.value.message
    assert read_claim(store, SEGMENT).holder == mine


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        (("r1", None), ("r2", None), False),
        (("r1", "a"), ("r2", "b"), False),
        (("r1", "a"), ("r2", None), False),
        (("r1", None), ("r2", "a"), False),
        (("r1", "a"), ("r2", "a"), True),  # the warehouse has one writer
        (("r1", "a"), ("r1", "a"), True),  # another attempt of one task
        (("r1", None), ("r1", None), True),
    ],
)
def test_a_young_claim_is_free_for_the_same_warehouse_and_for_the_same_run(store, first, second, free):
    one, two = attempt(*first), attempt(*second)
    claim(store, SEGMENT, one)
    if not free:
        with pytest.raises(ClaimedError):
            claim(store, SEGMENT, two)
        return
    held = claim(store, SEGMENT, two).claim
    assert held.attempts == (one, two)
    assert held.earlier == (one,)  # whose objects may be deleted


def test_a_claim_is_stale_by_the_clock_of_the_store_alone(store, monkeypatch):
    claim(store, SEGMENT, attempt("r1"))
    monkeypatch.setattr("time.time", lambda: 4e9)
    monkeypatch.setattr("time.time_ns", lambda: 4 * 10**18)
    with pytest.raises(ClaimedError):
        claim(store, SEGMENT, attempt("r2"), stale_after_ms=60_000)
    os.utime(store.root / KEY, (1, 1))  # the store says that it is from 1970
    assert claim(store, SEGMENT, attempt("r2"), stale_after_ms=60_000).claim.holder.run_id == "r2"


def test_a_claim_is_stale_once_more_time_has_passed_than_any_upload_may_take():
    held = Claim.of(attempt("r1"))
    reasons = [may_take_over(held, attempt("r2"), age, 100) for age in (99, 100, 101)]
    assert reasons == [None, None, "it is stale"]


def test_the_age_of_a_claim_is_what_the_store_says_since_its_last_change(store):
    held = claim(store, SEGMENT, attempt("r1"))
    os.utime(store.root / KEY, (1, 1))
    found, age = read_claim_and_age(store, SEGMENT)
    assert (found.claim, age > STALE_AFTER_MS) == (held.claim, True)


def test_a_claim_that_was_taken_over_is_young_again(store):
    claim(store, SEGMENT, attempt("r1"))
    os.utime(store.root / KEY, (1, 1))
    claim(store, SEGMENT, attempt("r2"))
    with pytest.raises(ClaimedError, match="r2"):
        claim(store, SEGMENT, attempt("r3"))


def test_who_was_taken_over_cannot_come_back_with_the_same_segment_id(store):
    mine = attempt("r")
    claim(store, SEGMENT, mine)
    claim(store, SEGMENT, attempt("r"))
    with pytest.raises(ClaimedError):
        claim(store, SEGMENT, mine)
    assert claim(store, SEGMENT, structs.replace(mine, segment_id=new_id())).claim.holder.run_id == "r"


def test_a_finished_claim_is_nobodys_to_take(store):
    held = claim(store, SEGMENT, attempt("r"))
    done = finish(store, held, ClaimedSnapshot.of(1, "COMPUTED", "MATCHES"))
    for other in (attempt("r"), attempt("r2")):
        assert claim(store, SEGMENT, other, stale_after_ms=-1) == done
    assert finish(store, held, ClaimedSnapshot.of(1, "COMPUTED", "MATCHES")) == done
    assert is_still_ours(store, held)


def test_a_finished_claim_whose_objects_are_gone_is_opened_again(store):
    done = finish(store, claim(store, SEGMENT, attempt("r1")))
    mine = attempt("r2")
    again = reopen(store, done, mine)
    assert (again.claim.holder, again.claim.finished, again.claim.earlier) == (mine, None, ())
    assert again.claim.kept == (done.claim.holder.segment_id,)
    with pytest.raises(ObjectChangedError):
        reopen(store, done, attempt("r3"))
    assert finish(store, again).claim.finished == mine.segment_id


def test_a_segment_that_was_finished_is_deleted_only_by_the_records(store):
    gave_up, lost, mine = attempt("r"), attempt("r"), attempt("r")
    claim(store, SEGMENT, gave_up)
    done = finish(store, claim(store, SEGMENT, lost))
    held = read_claim(store, SEGMENT)
    assert [held.may_delete(each.segment_id) for each in (gave_up, lost)] == [True, False]
    held = finish(store, reopen(store, done, mine)).claim
    assert [held.may_delete(each.segment_id) for each in (gave_up, lost, mine)] == [True, False, False]
    assert all(held.may_delete(each.segment_id, has_no_record=True) for each in (gave_up, lost, mine))


def test_who_lost_its_claim_sees_it_and_cannot_finish_or_release(store):
    mine = claim(store, SEGMENT, attempt("r"))
    assert is_still_ours(store, mine)
    other = claim(store, SEGMENT, attempt("r"))
    assert not is_still_ours(store, mine)
    with pytest.raises(ObjectChangedError):
        finish(store, mine)
    assert not release(store, mine)
    assert read_claim(store, SEGMENT) == other.claim
    store.delete([KEY])
    assert not is_still_ours(store, other)


def test_what_was_released_is_free_at_once(store):
    mine = claim(store, SEGMENT, attempt("r1"))
    assert release(store, mine)
    assert not is_still_ours(store, mine)
    assert claim(store, SEGMENT, attempt("r2"), stale_after_ms=NEVER_STALE).claim.earlier[0].ended


def test_the_claims_of_a_partition_are_listed_by_offset(store):
    other = replace(PARTITION, partition=70)
    segments = [ClaimedSegment(PARTITION, offset, epoch) for offset, epoch in ((5, 0), (5, 12), (40, 1), (300, 1))]
    for segment in (*reversed(segments), ClaimedSegment(other, 1, 0)):
        claim(store, segment, attempt("r"))
    store.put_if_absent(keys.partition_claims(PARTITION) + "notes.txt", b"somebody else's")
    assert list(claimed_segments(store, PARTITION)) == segments
    assert [held.segment for held in list_claims(store, PARTITION)] == segments
    assert read_claim(store, replace(segments[0], leader_epoch=1)) is None


# --- requests and faults


def test_a_segment_costs_one_request_each_to_claim_to_look_and_to_finish(store):
    counted = FlakyStore(store, {})
    held = claim(counted, SEGMENT, attempt("r"))
    is_still_ours(counted, held)
    finish(counted, held)
    assert counted.calls == ["put_if_absent", "read", "replace_if"]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_attempt_whose_answer_was_lost_goes_on_when_it_asks_again(store, step):
    # put, its look at it, replace: each is done and its answer lost, once.
    flaky = FlakyStore(store, {step: Fault.FAIL_AFTER})
    mine = attempt("r")
    if step > 1:
        claim(store, SEGMENT, attempt("r"))
    with pytest.raises(TransientError):
        claim(flaky, SEGMENT, mine)
        finish(flaky, claim(flaky, SEGMENT, mine))
    held = claim(store, SEGMENT, mine)
    assert held.claim.holder == mine
    assert finish(store, held).claim.finished == mine.segment_id


def test_an_attempt_that_dies_while_it_takes_over_has_done_so_or_not(store):
    for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
        first, second = attempt("r"), attempt("r")
        store.delete([KEY])
        claim(store, SEGMENT, first)
        with pytest.raises(Crash):
            claim(FlakyStore(store, {3: fault}), SEGMENT, second)
        expected = (first,) if fault is Fault.CRASH_BEFORE else (first, second)
        assert read_claim(store, SEGMENT).attempts == expected


# --- which process


def test_this_process_is_not_gone():
    assert not is_gone(this_process())


def test_a_process_that_ended_is_gone_also_before_its_parent_asks():
    code = (
        "from tiersnap.remote_storage.locks.process import this_process; p = this_process(); "
        "print(p.pid, p.process_start)"
    )
    child = subprocess.Popen([sys.executable, "-c", code + "; input()"], stdin=-1, stdout=-1, text=True)
    pid, start = child.stdout.readline().split()
    process = structs.replace(this_process(), pid=int(pid), process_start=start)
    assert not is_gone(process)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(process)
    child.communicate()
    assert is_gone(process)


def test_another_process_with_the_same_pid_is_not_the_one_that_is_gone():
    here = this_process()
    assert is_gone(structs.replace(here, process_start=here.process_start + "0"))


@pytest.mark.parametrize("change", ["host", "boot", "namespace", "unknown"])
def test_what_cannot_be_seen_from_here_is_not_said_to_be_gone(change):
    here = this_process()
    boot, namespace, ticks = here.process_start.split("/")
    elsewhere = {
        "host": structs.replace(ELSEWHERE, process_start=here.process_start),
        "boot": structs.replace(here, process_start=f"other/{namespace}/{ticks}"),
        "namespace": structs.replace(here, process_start=f"{boot}/1/{ticks}"),
        "unknown": structs.replace(here, process_start=""),
    }
    assert not is_gone(structs.replace(elsewhere[change], pid=2**22 + 1))


def status_file(proc: Path, fields: int) -> None:
    """A process as /proc shows it: a name with a bracket in it, then so many fields."""
    behind = ["S", *map(str, range(1, fields))]
    (proc / str(os.getpid())).mkdir(parents=True)
    (proc / str(os.getpid()) / "stat").write_bytes(f"{os.getpid()} (a) b) {' '.join(behind)}".encode())


@pytest.mark.parametrize("said", ["nothing", "no boot", "no start"])
def test_where_the_system_does_not_say_when_a_process_began_none_is_said_to_be_gone(monkeypatch, tmp_path, said):
    here = this_process()
    proc = tmp_path / "proc"
    if said != "nothing":
        status_file(proc, 19 if said == "no start" else 20)
    if said == "no start":
        show_boot(proc)
    monkeypatch.setattr("tiersnap.remote_storage.locks.process._PROC", proc)
    assert this_process().process_start == ""
    assert not is_gone(structs.replace(here, pid=2**22 + 1))


def test_the_start_of_a_process_is_the_last_of_the_fields_that_every_system_has(monkeypatch, tmp_path):
    status_file(tmp_path, 20)
    show_boot(tmp_path)
    monkeypatch.setattr("tiersnap.remote_storage.locks.process._PROC", tmp_path)
    assert this_process().process_start == f"some-boot/{(tmp_path / 'self/ns/pid').stat().st_ino}/19"


def show_boot(proc: Path) -> None:
    for name, content in {"sys/kernel/random/boot_id": "some-boot\n", "self/ns/pid": ""}.items():
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        (proc / name).write_text(content)
