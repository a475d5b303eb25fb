"""Who may write a warehouse that lies where no file can be locked."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.untouched import as_written
from tiersnap.jobs.pipeline.one_writer import _leased, only_run
from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.remote_storage.locks.lease import Lease, LeaseHolder, refuse_held
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.stores.directory_files import UnfinishedFolder
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import PutResult
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.errors import (
    CorruptDataError,
    ExitCode,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UsageError,
)

pytestmark = pytest.mark.unit

KEY = "tiersnap-lease.json"
ELSEWHERE = Process("broker-9", 17, "")


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def held_elsewhere(store: DirectoryStore, *, seconds_ago: float = 0) -> None:
    """By a run on another host, last heard of so long ago."""
    store.replace(KEY, LeaseHolder.of("theirs", ELSEWHERE).encode())
    heard = time.time() - seconds_ago
    os.utime(Path(store.uri.removeprefix("file://")) / KEY, (heard, heard))


def test_who_has_to_wait_is_told_for_whom_and_since_when(store: DirectoryStore) -> None:
    held_elsewhere(store, seconds_ago=60)
    told = r"run theirs on broker-9 \(pid 17\) is using this warehouse; it last renewed the lock at 20\d\d-"
    with pytest.raises(TransientError, match=told) as raised:
        Lease(store, KEY, "ours")
    assert raised.value.exit_code is ExitCode.TRANSIENT
    assert re.search(r"ends in 5[34]\d s", raised.value.hint or "")


def test_a_plan_waits_for_a_run_and_writes_no_lease(store: DirectoryStore) -> None:
    refuse_held(store, KEY)
    assert store.head(KEY) is None
    held_elsewhere(store, seconds_ago=60)
    with pytest.raises(TransientError, match="run theirs on broker-9"):
        refuse_held(store, KEY)
    held_elsewhere(store, seconds_ago=601)
    before = store.get(KEY)
    refuse_held(store, KEY)
    assert store.get(KEY) == before


def test_a_plan_waits_for_a_run_in_a_folder_and_changes_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    with only_run(str(folder), "plan", writes=False):
        assert not folder.exists()
    with (
        only_run(str(folder), "first"),
        pytest.raises(TransientError, match=r"run first on .* is using this warehouse"),
        only_run(str(folder), "plan", writes=False),
    ):
        pass
    before = as_written(folder.iterdir())
    with only_run(str(folder), "plan", writes=False), only_run(str(folder), "other plan", writes=False):
        assert as_written(folder.iterdir()) == before
        with only_run(str(folder), "second"):  # a plan keeps no run off
            assert as_written(folder.iterdir()) != before


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("below", ["", "sub", "sub/folder"])
def test_a_warehouse_below_a_file_is_refused(below: str, writes: bool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    warehouse = str(tmp_path / "file" / below)
    with pytest.raises(UsageError, match=f"^{re.escape(warehouse)}: "), only_run(warehouse, "run", writes=writes):
        pass


def test_a_run_starts_while_a_plan_looks_at_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_run(str(tmp_path), "run-old"):
        pass
    with (tmp_path / KEY).open("rb") as plan:
        fcntl.flock(plan, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(plan, fcntl.LOCK_UN))
        with only_run(str(tmp_path), "run-new"):
            assert "run-new" in (tmp_path / KEY).read_text()


def test_a_lease_that_nobody_renews_is_taken_over_and_its_holder_stops(store: DirectoryStore) -> None:
    first = Lease(store, KEY, "first", stale_after_ms=0)
    first.check()
    time.sleep(0.01)
    second = Lease(store, KEY, "second", stale_after_ms=0)
    second.check()
    for stop in (first.check, first.renew):
        with pytest.raises(LeaseLostError, match="another run has taken over"):
            stop()
    first.release()
    second.check()


def test_a_renewed_lease_is_young_again(store: DirectoryStore) -> None:
    held_elsewhere(store, seconds_ago=599)
    with pytest.raises(TransientError):
        Lease(store, KEY, "ours")
    held_elsewhere(store, seconds_ago=601)
    lease = Lease(store, KEY, "ours")
    first = store.read(KEY).info.etag
    lease.renew()
    lease.check()
    assert store.read(KEY).info.etag != first
    assert json.loads(store.get(KEY))["renewals"] == 1


@pytest.mark.parametrize("error", [TransientError, RemoteStorageError])
def test_release_ends_no_run_whose_work_is_done(store: DirectoryStore, error: type[TiersnapError]) -> None:
    class Refusing(DirectoryStore):
        def replace_if(self, *_: object) -> PutResult:
            raise error("credentials refused: ExpiredToken")

    Lease(Refusing(store.root), KEY, "ours").release()
    assert not json.loads(store.get(KEY))["ended"], "its age says that it is over"


def test_a_lease_that_was_given_back_or_whose_process_is_gone_is_free_at_once(store: DirectoryStore) -> None:
    Lease(store, KEY, "first").release()
    Lease(store, KEY, "second").release()
    here = this_process()
    boot = here.process_start.rpartition("/")[0]
    store.replace(KEY, LeaseHolder.of("killed", Process(here.host, here.pid, f"{boot}/1")).encode())
    Lease(store, KEY, "third").check()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"version":2}', LeaseHolder.of("r", ELSEWHERE).encode().replace(b"17", b'"x"')]
)
def test_what_is_no_lease_is_refused_and_not_overwritten(store: DirectoryStore, data: bytes) -> None:
    store.replace(KEY, data)
    with pytest.raises(CorruptDataError):
        Lease(store, KEY, "ours")
    assert store.get(KEY) == data


def test_renewals_go_on_when_the_store_refused_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As it does while credentials that expired are not there anew; here a link lies in the way."""
    lease, aside, link = tmp_path / KEY, tmp_path / "aside", tmp_path / "link"
    link.symlink_to("nowhere")

    def until(is_so: Callable[[], bool]) -> None:
        for _ in range(1000):
            if is_so():
                return
            time.sleep(0.005)
        pytest.fail("it never was")

    with _leased(str(tmp_path), "ours", StoreSettings(), 0.005) as check:
        with UnfinishedFolder(tmp_path).locked():
            aside.hardlink_to(lease)
            link.replace(lease)
        until(lambda: "was not renewed, trying again" in caplog.text)
        renewals = json.loads(aside.read_text())["renewals"]
        aside.replace(lease)
        until(lambda: json.loads(lease.read_text())["renewals"] > renewals)
        check()
