"""The copies that a claim keeps, and which claim names a segment."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.reference.flaky_store import FlakyStore
from tests.unit.test_claims_interleaved import PARTITION, SEGMENT, attempt, new_id
from tiersnap.remote_storage.errors import ClaimedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim import Attempt, Claim, ClaimedSegment, HeldClaim
from tiersnap.remote_storage.locks.claim_protocol import (
    claim,
    claim_naming,
    claimed_segments,
    finish,
    keep,
    put_again,
    read_claim,
    release,
    reopen,
)
from tiersnap.remote_storage.locks.process import this_process
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

KEY = keys.claim(PARTITION, SEGMENT.base_offset, SEGMENT.leader_epoch)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def held_claim(store: DirectoryStore, segment: ClaimedSegment = SEGMENT) -> Claim:
    found = read_claim(store, segment)
    assert found is not None
    return found


def taken_over(store: DirectoryStore, holder: Attempt) -> tuple[Attempt, HeldClaim]:
    """The attempt whose claim `holder`, of the same run, took over, and the claim."""
    earlier = attempt("r")
    claim(store, SEGMENT, earlier)
    return earlier, claim(store, SEGMENT, holder)


def age(store: DirectoryStore, held: HeldClaim) -> None:
    os.utime(store.root / KEY, (1, 1))


def finish_it(store: DirectoryStore, held: HeldClaim) -> None:
    finish(store, held)


def release_it(store: DirectoryStore, held: HeldClaim) -> None:
    release(store, held)


@pytest.mark.parametrize("end", [age, finish_it, release_it])
def test_a_copy_of_an_earlier_attempt_is_kept_once_its_holder_is_over(store: DirectoryStore, end) -> None:
    holder = attempt("r")
    earlier, taken = taken_over(store, holder)
    end(store, taken)
    finished = held_claim(store).finished
    keep(store, SEGMENT, earlier.segment_id)
    held = held_claim(store)
    assert (held.kept, held.finished) == ((earlier.segment_id,), finished)
    assert [each.segment_id for each in held.attempts] == [holder.segment_id]
    assert not held.may_delete(earlier.segment_id)


def test_a_copy_of_an_earlier_attempt_is_kept_if_the_process_of_its_holder_is_gone(store: DirectoryStore) -> None:
    here = this_process()
    earlier, _ = taken_over(store, attempt("r", process=structs.replace(here, process_start=here.process_start + "0")))
    keep(store, SEGMENT, earlier.segment_id)
    assert held_claim(store).kept == (earlier.segment_id,)


def test_a_copy_is_not_kept_while_another_attempt_may_delete_it(store: DirectoryStore) -> None:
    earlier, _ = taken_over(store, attempt("r"))
    before = store.get(KEY)
    with pytest.raises(ClaimedError):
        keep(store, SEGMENT, earlier.segment_id)
    assert store.get(KEY) == before


def test_a_copy_of_the_holder_is_kept_at_once_and_by_one_write(store: DirectoryStore) -> None:
    holder = attempt("r")
    claim(store, SEGMENT, holder)
    counted = FlakyStore(store, {})
    for _ in range(2):
        keep(counted, SEGMENT, holder.segment_id)  # type: ignore[arg-type]
    assert held_claim(store).kept == (holder.segment_id,)
    assert counted.calls == ["read", "replace_if", "read"]


def test_nothing_is_kept_of_a_claim_that_is_missing_damaged_or_names_others(store: DirectoryStore) -> None:
    keep(store, SEGMENT, new_id())
    assert list(store.list()) == []
    finish(store, claim(store, SEGMENT, attempt("r")))
    before = store.get(KEY)
    keep(store, SEGMENT, new_id())
    assert store.get(KEY) == before
    store.delete([KEY])
    store.put_if_absent(KEY, b"{}")
    keep(store, SEGMENT, new_id())
    assert store.get(KEY) == b"{}"


def test_a_claim_that_was_lost_is_written_again_as_one_that_was_given_up(store: DirectoryStore) -> None:
    held = claim(store, SEGMENT, attempt("r"))
    store.delete([KEY])
    put_again(store, held)
    again = held_claim(store)
    assert ([each.segment_id for each in again.attempts], again.holder.ended) == ([held.claim.holder.segment_id], True)


def test_a_claim_of_another_attempt_is_not_written_over(store: DirectoryStore) -> None:
    held = claim(store, SEGMENT, attempt("r"))
    store.delete([KEY])
    other = claim(store, SEGMENT, attempt("r2"))
    put_again(store, held)
    assert held_claim(store) == other.claim


def test_claim_is_found_by_each_segment_id_that_it_names(store: DirectoryStore) -> None:
    first, mine = attempt("r"), attempt("r")
    held = reopen(store, finish(store, claim(store, SEGMENT, first)), mine).claim
    assert (held.kept, held.finished) == ((first.segment_id,), None)
    for each in (first, mine):
        found = claim_naming(store, [SEGMENT], SEGMENT.base_offset, each.segment_id)
        assert found == held
    assert claim_naming(store, [SEGMENT], SEGMENT.base_offset, new_id()) is None


def test_claim_is_looked_for_at_its_offset_alone_and_beside_a_damaged_one(store: DirectoryStore) -> None:
    mine, damaged = attempt("r"), replace(SEGMENT, leader_epoch=SEGMENT.leader_epoch - 1)
    held = claim(store, SEGMENT, mine).claim
    store.put_if_absent(keys.claim(PARTITION, damaged.base_offset, damaged.leader_epoch), b"{}")
    counted = FlakyStore(store, {})
    for offset in (SEGMENT.base_offset - 1, SEGMENT.base_offset + 1):
        assert claim_naming(counted, [damaged, SEGMENT], offset, mine.segment_id) is None  # type: ignore[arg-type]
    assert counted.calls == []
    assert claim_naming(store, [damaged, SEGMENT], SEGMENT.base_offset, mine.segment_id) == held


def test_objects_beside_claims_that_are_no_claims_are_not_listed(store: DirectoryStore) -> None:
    claim(store, SEGMENT, attempt("r"))
    aside = KEY.removesuffix(".json") + ".copy.json"
    store.put_if_absent(aside, b"{}")
    assert list(claimed_segments(store, PARTITION)) == [SEGMENT]
