"""Claims on every kind of store, and what a segment costs in requests."""

import io
import random

import pytest

from tests.reference.listed_claims import list_claims
from tests.s3.test_s3_faults import is_put
from tests.unit.test_claims_interleaved import SEGMENT, attempt
from tiersnap.remote_storage.errors import ClaimedError, ObjectChangedError
from tiersnap.remote_storage.locks.claim import ClaimedSnapshot
from tiersnap.remote_storage.locks.claim_protocol import claim, finish, is_still_ours, release
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE

pytestmark = pytest.mark.s3
SNAPSHOT = ClaimedSnapshot.of(1, "COMPUTED", "MATCHES")


def test_attempts_keep_out_of_each_others_way(store):
    first = claim(store, SEGMENT, attempt("r1"))
    with pytest.raises(ClaimedError, match="r1"):
        claim(store, SEGMENT, attempt("r2"))
    second = claim(store, SEGMENT, attempt("r1"))
    assert second.claim.earlier == first.claim.attempts
    assert not is_still_ours(store, first)
    assert is_still_ours(store, second)
    with pytest.raises(ObjectChangedError):
        finish(store, first, SNAPSHOT)
    assert release(store, second)
    third = claim(store, SEGMENT, attempt("r3"))
    done = finish(store, third, SNAPSHOT)
    assert claim(store, SEGMENT, attempt("r4")) == done
    assert list(list_claims(store, SEGMENT.partition)) == [done]


def test_a_claim_is_stale_by_the_date_header_of_the_server(proxy, faulty_store):
    claim(faulty_store, SEGMENT, attempt("r1"))
    proxy.when(
        lambda method, _: method == "GET", "header", header=("Date", "Sun, 22 Nov 2099 01:00:00 GMT"), times=1
    )  # fmt: skip
    assert claim(faulty_store, SEGMENT, attempt("r2")).claim.holder.run_id == "r2"


@pytest.mark.parametrize("date", ["", "not a date"])
def test_a_server_that_does_not_say_the_time_makes_nothing_stale(proxy, faulty_store, date):
    claim(faulty_store, SEGMENT, attempt("r1"))
    proxy.when(lambda method, _: method == "GET", "header", header=("Date", date))
    with pytest.raises(ClaimedError):
        claim(faulty_store, SEGMENT, attempt("r2"), stale_after_ms=0)


def test_a_claim_whose_answer_was_lost_is_had(proxy, faulty_store):
    for use in (
        lambda: claim(faulty_store, SEGMENT, attempt("r")),  # put if absent
        lambda: claim(faulty_store, SEGMENT, attempt("r")),  # taken over
    ):
        proxy.rules.clear()
        rule = proxy.when(lambda method, path: is_put(method, path), "drop-answer", times=2)
        held = use()
        assert rule.hits == 2
        assert is_still_ours(faulty_store, held)
    proxy.when(is_put, "drop-answer", times=1)
    assert finish(faulty_store, held).claim.finished == held.claim.holder.segment_id


@pytest.mark.parametrize(("size", "budget"), [(1000, 6), (2 * MIN_PART_SIZE + 1, 7)])
def test_a_segment_costs_at_most_seven_requests_besides_its_parts(proxy, faulty_store, size, budget):
    log = random.Random(size).randbytes(size)
    held = claim(faulty_store, SEGMENT, attempt("r"))
    puts = [
        faulty_store.put_file_if_absent("x.log", io.BytesIO(log), len(log)),
        faulty_store.put_if_absent("x.indexes", b"indexes"),
    ]
    assert is_still_ours(faulty_store, held)
    puts.append(faulty_store.put_if_absent("x.rsm-manifest", b"{}"))
    finish(faulty_store, held)
    assert all(put.proved and put.outcome.is_ours for put in puts)  # nothing needs a second look
    assert len([request for request in proxy.requests if "partNumber" not in request]) == budget
