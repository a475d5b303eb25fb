"""--max-bytes-per-second: the average holds whatever the sizes are, by a clock that the test turns."""

from __future__ import annotations

import io
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.remote_storage.stores import pace
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.pace import LEAST_RATE, Pace, TokenBucket, check_rate, shares
from tiersnap.remote_storage.stores.paced_store import PacedStore, in_shares, paced
from tiersnap.snapshot.errors import UsageError

pytestmark = pytest.mark.unit

RATE = 1000


class Clock:
    """Seconds that pass only when somebody sleeps or `turn` is called."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


@given(st.lists(st.tuples(st.integers(0, 5 * RATE), st.floats(0, 3)), max_size=30))
def test_in_no_stretch_of_time_pass_more_bytes_than_the_rate_brings_and_one_bucket(steps):
    clock = Clock()
    slow = Pace(RATE, lambda: clock.now, clock.sleep)
    passed: list[tuple[float, int]] = []
    for size, idle in steps:
        clock.now += idle
        slow.wait_for(size)
        passed.append((clock.now, size))
    for first, (begin, _) in enumerate(passed):
        for end, _ in passed[first:]:
            # What passes at `begin` was waited for before it.
            between = sum(size for at, size in passed[first + 1 :] if begin < at <= end)
            assert between <= (end - begin) * RATE + RATE + 1e-6


@given(st.integers(1, 100), st.integers(1, RATE))
def test_a_long_job_is_not_slower_than_its_rate_either(count, size):
    clock = Clock()
    slow = Pace(RATE, lambda: clock.now, clock.sleep)
    for _ in range(count):
        slow.wait_for(size)
    assert clock.slept <= count * size / RATE


def test_a_bucket_fills_up_to_one_second_and_no_more():
    bucket = TokenBucket(RATE, at=0.0)
    assert bucket.take(RATE, 0.0) == 0.0
    assert bucket.take(RATE // 2, 100.0) == 0.0
    assert bucket.take(RATE, 100.0) == 0.5


def test_threads_share_one_bucket():
    clock, lock = Clock(), threading.Lock()

    def sleep(seconds: float) -> None:
        with lock:
            clock.slept = max(clock.slept, seconds)

    slow = Pace(RATE, lambda: 0.0, sleep)
    threads = [threading.Thread(target=slow.wait_for, args=(RATE,)) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert clock.slept == 4.0, "the last of five seconds' worth waits for the four before it"


def test_a_paced_store_is_the_store_and_every_body_is_waited_for(tmp_path, monkeypatch):
    waited: list[int] = []
    monkeypatch.setattr(Pace, "wait_for", lambda _, size: waited.append(size))
    store = pickle.loads(pickle.dumps(PacedStore(DirectoryStore(tmp_path), LEAST_RATE)))
    assert store.put_file_if_absent("a", io.BytesIO(b"123456"), 6).size == 6
    etag = store.put_if_absent("b", b"12345").etag
    store.replace_if("b", b"1234", etag)
    store.replace("b", b"123")
    assert sum(waited) == 6 + 5 + 4 + 3
    waited.clear()
    assert (store.get("a"), store.get_range("a", 1, 2), store.read("b").data) == (b"123456", b"23", b"123")
    assert waited == [6, 2, 3]
    waited.clear()
    assert [info.key for info in store.list()] == ["a", "b"]
    assert store.head("a") is not None
    assert store.delete(["a"]) == ()
    assert store.uri == DirectoryStore(tmp_path).uri
    assert waited == []


def test_without_a_rate_the_store_is_left_as_it_is(tmp_path):
    store = DirectoryStore(tmp_path)
    assert paced(store, None) is store
    assert in_shares(store, None, 8) == (None, store)


def test_a_job_is_divided_into_shares_that_uploads_can_keep_to():
    assert shares(100 * LEAST_RATE, 8) == (8, 100 * LEAST_RATE // 8)
    assert shares(3 * LEAST_RATE + 1, 8) == (3, LEAST_RATE)
    assert shares(LEAST_RATE, 8) == (1, LEAST_RATE)
    with pytest.raises(UsageError, match="stale"):
        check_rate(LEAST_RATE - 1)


def test_the_command_tiers_at_the_rate_that_it_is_given(tmp_path, monkeypatch):
    log, remote = tmp_path / "log", tmp_path / "remote"
    log.mkdir()
    write_small_log(log)
    rates: list[int] = []
    real = pace.pace_of

    def noted(rate: int) -> Pace:
        rates.append(rate)
        return real(rate)

    monkeypatch.setattr("tiersnap.remote_storage.stores.paced_store.pace_of", noted)
    assert_said(tiersnap("tier", log, "--remote", remote, "--apply", "--max-bytes-per-second", "5MiB"), 0)
    assert set(rates) == {5 << 20}
    assert_said(tiersnap("tier", log, "--remote", remote, "--max-bytes-per-second", "1MiB"), 2, "at least 4MiB")
