"""--max-bytes-per-second: the average holds whatever the sizes are, by a clock that the test turns."""

from __future__ import annotations

import io
import pickle
import threading

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.command import assert_said, tiersnap
from tests.reference.restoring import END, ORIGINAL, new_disk, restore, tiered_store
from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.commands.run import run, run_options
from tiersnap.jobs.commands.tier import HostRequest, host_options
from tiersnap.jobs.commands.unblock import unblock
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.stores import paced_store
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.paced_store import (
    LEAST_RATE,
    Pace,
    PacedStore,
    TokenBucket,
    check_rate,
    in_shares,
    paced,
    shares,
)
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
    assert in_shares(store, None, 8) == (8, store)


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
    real = paced_store.pace_of

    def noted(rate: int) -> Pace:
        rates.append(rate)
        return real(rate)

    monkeypatch.setattr("tiersnap.remote_storage.stores.paced_store.pace_of", noted)
    assert_said(tiersnap("tier", log, "--remote", remote, "--apply", "--max-bytes-per-second", "5MiB"), 0)
    assert set(rates) == {5 << 20}
    assert_said(tiersnap("tier", log, "--remote", remote, "--max-bytes-per-second", "1MiB"), 2, "at least 4MiB")


SLOWER = 1 << 14  # the least rate that may be asked for passes any bundled log at once


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """What every pace goes by, at a rate that is so many times lower than was asked for."""
    clock, paces = Clock(), {}

    def slowed(rate: int) -> Pace:
        return paces.setdefault(rate, Pace(rate // SLOWER, lambda: clock.now, clock.sleep))

    monkeypatch.setattr("tiersnap.remote_storage.stores.paced_store.pace_of", slowed)
    return clock


def test_a_restore_fetches_no_more_bytes_a_second_than_it_is_given(tmp_path, clock):
    store, disk = tiered_store(tmp_path / "remote"), new_disk(tmp_path / "disk")
    assert restore(store, disk, "--max-bytes-per-second", "4MiB", "--apply").exit_code == 0
    logs = sum(each.stat().st_size for each in ORIGINAL.glob("*.log") if int(each.stem) < END)
    rate = (4 << 20) // SLOWER
    assert clock.now >= logs / rate - 1, "but for the one second that a bucket holds"


def given_to(options, value: str, *words: str):
    """What a command with these options is given as `value`."""
    given = []
    command = click.command()(click.pass_obj(options(lambda _, **all_of_them: given.append(all_of_them[value]))))
    ran = CliRunner().invoke(command, [*words, "--max-bytes-per-second", "8MiB"], obj=Output())
    assert ran.exit_code == 0, ran.output
    return given[0]


def test_what_unblock_and_tier_send_goes_at_the_rate_that_they_are_given(tmp_path, clock):
    request: HostRequest = given_to(host_options(), "request", "--remote", str(tmp_path / "remote"))
    request.store.put_if_absent("a", bytes(10 * (8 << 20) // SLOWER))
    assert clock.now == 9.0, "ten seconds' worth, and a bucket holds one"
    assert "rate" in {param.name for param in unblock.params}


def test_all_tasks_of_a_run_together_send_at_the_rate_that_it_is_given(tmp_path, clock):
    words = ("--source", str(tmp_path), "--remote", str(tmp_path / "remote"))
    settings: RunSettings = given_to(run_options, "settings", *words)
    tasks, store = in_shares(DirectoryStore(tmp_path / "remote"), settings.rate, 200)
    assert tasks == 2, "each has the least rate at which no upload looks stale"
    store.put_if_absent("a", bytes(10 * (8 << 20) // SLOWER // tasks))
    assert clock.now == 9.0
    assert "rate" in {param.name for param in run.params}
