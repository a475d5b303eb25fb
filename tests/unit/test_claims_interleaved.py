"""Attempts at one segment whose calls of the store come in any order, and which die anywhere."""

import itertools
import tempfile
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.examples import examples
from tests.reference.interleaved import Killed, Turns
from tiersnap.remote_storage.errors import ClaimedError, ObjectChangedError
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import (
    claim,
    finish,
    is_still_ours,
    read_claim,
    release,
)
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

PARTITION = TopicIdPartition("payments", "MWJ6FHTfRYy67jzwZdeqSQ", 7)
SEGMENT = ClaimedSegment(PARTITION, 1234, 5)
ELSEWHERE = Process("another-host", 1, "boot/1/1")
NEVER_STALE, AT_ONCE = 10**9, -1

WON, LOST, REFUSED, FINISHED_BEFORE, RELEASED = "won", "lost", "refused", "finished before", "released"


def new_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def attempt(run: str, warehouse: str | None = None, process: Process = ELSEWHERE) -> Attempt:
    return Attempt.of(new_id(), run, warehouse, process)


def copy(store, mine: Attempt, *, stale_after_ms: int = NEVER_STALE, gives_up: bool = False) -> str:
    """What an upload does, with one object for all of a segment's."""
    try:
        held = claim(store, SEGMENT, mine, stale_after_ms=stale_after_ms)
    except ClaimedError:
        return REFUSED
    if held.claim.finished is not None:
        return FINISHED_BEFORE
    store.delete([f"copies/{known.segment_id}" for known in held.claim.earlier])
    if gives_up:
        release(store, held)
        return RELEASED
    if not is_still_ours(store, held):
        return LOST
    store.put_if_absent(f"copies/{mine.segment_id}", b"visible")
    try:
        finish(store, held)
    except ObjectChangedError:
        store.delete([f"copies/{mine.segment_id}"])
        return LOST
    return WON


def run(attempts: list[tuple[Attempt, dict]], choices, kills=frozenset()) -> tuple[DirectoryStore, dict[str, object]]:
    """`choices` are taken by turns; the actors in `kills` die in front of their call of that number."""
    folder = tempfile.TemporaryDirectory()
    store = DirectoryStore(Path(folder.name))
    store_and_folder.append(folder)
    left, taken = iter(choices), dict.fromkeys(map(str, range(len(attempts))), 0)

    def choose(names: list[str]) -> str:
        name = names[next(left, 0) % len(names)]
        if (int(name), taken[name]) in kills:
            turns.kill(name)
        taken[name] += 1
        return name

    turns = Turns(choose)
    for number, (mine, options) in enumerate(attempts):
        turns.add(str(number), lambda view, mine=mine, options=options: copy(view, mine, **options))
    return store, turns.run(store)


store_and_folder: list[tempfile.TemporaryDirectory] = []


@pytest.fixture(autouse=True, scope="module")
def folders_are_removed_and_no_disk_is_waited_for():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield
    while store_and_folder:
        store_and_folder.pop().cleanup()


def assert_one_copy_of(store: DirectoryStore, winner: Attempt) -> None:
    held = read_claim(store, SEGMENT)
    assert held.finished == winner.segment_id
    assert [found.key for found in store.list("copies/")] == [f"copies/{winner.segment_id}"]


choices = st.lists(st.integers(0, 2), max_size=40)


@given(choices, st.integers(2, 3))
def test_of_attempts_that_may_not_take_over_one_wins_and_the_others_are_told(choices, count):
    attempts = [(attempt(f"r{n}"), {}) for n in range(count)]
    store, results = run(attempts, choices)
    assert sorted(map(str, results.values())).count(WON) == 1
    assert set(results.values()) <= {WON, REFUSED, FINISHED_BEFORE}
    winner = next(mine for (mine, _), result in zip(attempts, results.values(), strict=True) if result == WON)
    assert_one_copy_of(store, winner)


WAYS = {
    "one task": lambda n: (attempt("run", "s3://tables/x"), {}),
    "a warehouse at a time": lambda n: (attempt(f"r{n}", "s3://tables/x"), {}),
    "stale": lambda n: (attempt(f"r{n}"), {"stale_after_ms": AT_ONCE}),
    "mixed": lambda n: (attempt(f"r{n % 2}", "s3://tables/x" if n else None), {}),
}


@settings(max_examples=examples(150))
@given(st.sampled_from(sorted(WAYS)), choices, st.integers(2, 3))
def test_of_attempts_that_may_take_over_one_wins_and_only_its_copy_is_left(way, choices, count):
    attempts = [WAYS[way](n) for n in range(count)]
    store, results = run(attempts, choices)
    assert list(results.values()).count(WON) == 1, results
    winner = next(mine for (mine, _), result in zip(attempts, results.values(), strict=True) if result == WON)
    assert_one_copy_of(store, winner)


@given(choices, st.sets(st.integers(0, 2)))
def test_who_gives_up_keeps_nobody_waiting(choices, who):
    attempts = [(attempt(f"r{n}"), {"gives_up": n in who}) for n in range(3)]
    store, results = run(attempts, choices)
    assert list(results.values()).count(WON) == min(1, 3 - len(who)) or REFUSED in results.values()
    assert list(results.values()).count(WON) <= 1
    # whoever comes next finds it finished, or wins
    late = attempt("late")
    assert copy(store, late) in {WON, FINISHED_BEFORE}
    assert len(list(store.list("copies/"))) == 1


@settings(max_examples=examples(150))
@given(choices, st.sets(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=3))
def test_whoever_dies_anywhere_the_next_run_ends_with_one_copy(choices, kills):
    attempts = [(attempt(f"r{n}", "s3://tables/x"), {}) for n in range(3)]
    store, results = run(attempts, choices, kills)
    assert list(results.values()).count(WON) <= 1
    late = attempt("late", "s3://tables/x")
    outcome = copy(store, late)
    assert outcome in {WON, FINISHED_BEFORE}
    held = read_claim(store, SEGMENT)
    store.delete([f"copies/{known.segment_id}" for known in held.earlier])  # as a run does after its look
    assert [found.key for found in store.list("copies/")] == [f"copies/{held.finished}"]


def test_killed_at_each_of_its_steps_an_attempt_is_taken_over_by_a_new_run():
    for step in itertools.count():
        dies = attempt("r0", "s3://tables/x")
        store, results = run([(dies, {})], [], {(0, step)})
        if not isinstance(results["0"], Killed):
            assert results["0"] == WON
            break
        late = attempt("r1", "s3://tables/x")
        assert copy(store, late) == WON
        assert_one_copy_of(store, late)
    assert step == 5  # claim, leftovers, look, copy, finish


@pytest.mark.parametrize("step", range(1, 5))
def test_a_run_without_tables_waits_until_the_claim_is_stale_or_its_process_gone(step):
    store, _ = run([(attempt("r0"), {})], [], {(0, step)})
    assert copy(store, attempt("r1")) == REFUSED
    assert copy(store, attempt("r1"), stale_after_ms=AT_ONCE) == WON

    here = this_process()
    store, _ = run([(attempt("r0", process=here), {})], [], {(0, step)})
    assert copy(store, attempt("r1")) == REFUSED
    store, _ = run([(attempt("r0", process=Process(here.host, 2**22 + 1, here.process_start)), {})], [], {(0, step)})
    assert copy(store, attempt("r1")) == WON
