"""Wrong segments of ours that no broker manages are replaced by right ones, whenever a run is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.memory_store import MemoryStore
from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.left_over import CLUSTER, DAY, tier_ours
from tests.reference.planned import PARTITION, planned
from tests.reference.tiered import rows_of
from tiersnap.remote_storage.check.local_log import local_logs
from tiersnap.remote_storage.check.partition_check import PartitionCheck
from tiersnap.remote_storage.errors import ClaimedError
from tiersnap.remote_storage.inventory.remote_inventory import list_remote_partition
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendOutcome
from tiersnap.remote_storage.mend.make_again import MakeAgain, RemoteLogs
from tiersnap.remote_storage.mend.mending import Mending
from tiersnap.remote_storage.mend.replace_unmanaged import ReplaceUnmanaged
from tiersnap.remote_storage.mend.right_segments import MendRules
from tiersnap.remote_storage.mend.unmanaged_tier import UnmanagedTier
from tiersnap.remote_storage.metadata.segment_metadata import new_segment_id
from tiersnap.remote_storage.own_objects import claim_protocol
from tiersnap.remote_storage.own_objects.claim import Attempt, Claim
from tiersnap.remote_storage.own_objects.process import this_process
from tiersnap.remote_storage.own_objects.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.retire.partition_leftovers import sweep_partition
from tiersnap.remote_storage.stores.object_store import ObjectStore, PutResult
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.readiness.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.replay_start import Beginnings

pytestmark = pytest.mark.unit

WRITES = {"put_if_absent", "put_file_if_absent", "replace_if", "delete"}
NOW = 1_700_000_000_500
GONE = replace(this_process(), process_start=this_process().process_start + "0")


class Place:
    """Three segments that tiersnap uploaded, the second of them wrong, and the log on this host."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.layout, self.store, self.logs = layout, MemoryStore(), folder / "logs"
        self.location = RemoteLocation(self.store, layout)
        tier_ours(self.store, layout, self.logs)
        self.wrong = self.segments()[1]
        self.right = {key: self.store.get(key) for key in self.wrong.keys}
        self.damage()

    def damage(self) -> None:
        """Damage an index of the segment that is to be wrong."""
        suffix = ".timeindex" if self.layout.is_local else ".indexes"
        (key,) = (key for key in self.wrong.keys if key.endswith(suffix))
        self.store.replace(key, self.store.get(key)[:-1] + b"?")

    def segments(self) -> tuple[RemoteSegment, ...]:
        return list_remote_partition(self.location, PARTITION).segments

    def claim(self) -> Claim:
        found = claim_protocol.read_claim(self.store, self.wrong.claimed_as)
        assert found is not None
        return found

    def objects(self) -> set[str]:
        return {info.key for info in self.store.list(keys.partition_segments(PARTITION, local=self.layout.is_local))}

    def mend(self, store: ObjectStore | None = None) -> tuple[list[Mending], list[TiersnapError]]:
        """As the command does: what lacks objects first, then what is wrong."""
        local = local_logs([str(self.logs)], Selection(), Beginnings(), check_crc=True)
        logs = RemoteLogs(
            replace(self.location, store=store or self.store), MendRules(Expiry(None, NOW), None), local, {}
        )
        tier = UnmanagedTier(logs, lambda _: True, unmanaged=True)
        lacking = list(tier.lacking())
        done = list(MakeAgain(logs, lambda _: None, allow_plaintext=False, apply=True).each(lacking))
        tierer = Tierer("mend", NOW, process=GONE, timeout=None)
        job = ReplaceUnmanaged(logs, tierer, allow_plaintext=False, apply=True, remnants=tier.remnants)
        done += job.each(tier.partitions, CheckDepth.FULL, lacking)
        return done, [*tier.failures, *job.failures]

    def sound(self) -> set[int]:
        """The base offsets at which a segment is right, by `verify --depth full`."""
        asked = CheckRequest(CheckDepth.FULL, NOW, None)
        found = PartitionCheck(self.location, PARTITION, asked).checks()
        return {each.base_offset for each in found if each.verdict.is_sound}

    def sweep(self) -> None:
        """What `tier` does first, days later."""
        self.store.time += 2 * DAY
        sweep_partition(self.store, list_remote_partition(self.location, PARTITION))


@pytest.fixture(name="place", params=["aiven", "local-tiered-storage"])
def fixture_place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(tmp_path, open_layout(request.param))


def told(mended: tuple[list[Mending], list[TiersnapError]]) -> list[tuple[str, str, str]]:
    done, failures = mended
    assert failures == []
    return [(str(each.action), str(each.outcome), each.metadata.id.segment_id) for each in done]


def test_a_wrong_segment_is_replaced_and_deleted(place):
    assert place.sound() == {0, 10}
    assert told(place.mend()) == [("REPLACE", "MENDED", place.wrong.segment_id)]
    assert place.sound() == {0, 5, 10}
    assert not any(place.wrong.segment_id in key for key in place.objects())
    assert place.claim().kept == ()
    assert told(place.mend()) == []


def killed(place: Place) -> Iterator[int]:
    """Kill `mend` behind each write in turn, each time from the beginning, until one comes to its end."""
    call, before = 0, dict(place.store.objects)
    while True:
        call += 1
        place.store.objects = dict(before)
        try:
            place.mend(FlakyStore(place.store, {call: Fault.CRASH_AFTER}, counted=WRITES))
            return
        except Crash:
            yield call


def check_ended(place: Place) -> None:
    place.sweep()
    assert place.sound() == {0, 5, 10}
    assert len({keys.recognise(key).segment_id for key in place.objects()}) == 3


def test_mend_killed_anywhere_leaves_nothing_behind_and_loses_nothing(place):
    for call in killed(place):
        assert {each.start_offset for each in place.segments()} == {0, 5, 10}, call
        place.mend()
        check_ended(place)
    check_ended(place)
    assert told(place.mend()) == []


@pytest.mark.parametrize("number", [1, 2])
def test_an_object_of_a_wrong_segment_that_is_not_deleted_goes_with_the_leftovers(place, number):
    done, _ = place.mend(FlakyStore(place.store, {number: Fault.FAIL_BEFORE}, counted={"delete"}))
    assert [str(each.outcome) for each in done] == ["FAILED"]
    assert any(place.wrong.segment_id in key for key in place.objects())
    place.sweep()
    assert not any(place.wrong.segment_id in key for key in place.objects())
    assert place.sound() == {0, 5, 10}
    assert told(place.mend()) == []


@pytest.mark.parametrize("is_finished", [True, False])
def test_no_leftover_takes_the_place_of_a_wrong_segment(place, is_finished):
    """A complete copy of an earlier attempt: nobody finished it, so the next sweep may delete it."""
    left, held = new_segment_id(), place.claim()
    for key, content in place.right.items():
        ours = content.replace(place.wrong.segment_id.encode(), left.encode())
        place.store.put_if_absent(key.replace(place.wrong.segment_id, left), ours)
    earlier = Attempt(left, "run-0", process=GONE)
    attempts = (earlier, held.holder) if is_finished else (held.holder, earlier)
    kept = () if is_finished else (place.wrong.segment_id,)
    changed = replace(held, attempts=attempts, finished=held.finished if is_finished else None, kept=kept)
    place.store.replace_if(keys.claim(PARTITION, 5, 0), changed.encode(), held.etag)
    place.mend()
    assert place.sound() == {0, 5, 10}
    claim = place.claim()
    assert claim.finished == claim.holder.segment_id and claim.finished not in (left, place.wrong.segment_id)
    place.sweep()
    assert place.sound() == {0, 5, 10}
    assert len({keys.recognise(key).segment_id for key in place.objects()}) == 3


def test_tier_goes_on_where_mend_was_killed(tmp_path):
    """Whoever comes next deletes the rest, and has all segments."""
    place = Place(tmp_path, open_layout("aiven"))
    for _ in killed(place):
        tierer = Tierer("tier", NOW, process=GONE, wait=0)
        rows = rows_of(tier_partition(place.location, PARTITION, planned(place.logs / "orders-0"), tierer))
        assert [row["error"] for row in rows] == [None] * len(rows)
        place.mend()
        check_ended(place)


class Meanwhile:
    """A store at which something happens right before the first claim is asked for."""

    def __init__(self, inner: ObjectStore, act: Callable[[], object]) -> None:
        self._inner, self._act = inner, [act]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        if key.startswith("claims/") and self._act:
            self._act.pop()()
        return self._inner.put_if_absent(key, data, metadata)


def test_two_runs_at_once_make_one_segment(place):
    """What the other one made nobody has verified here: the next run does."""
    done, _ = place.mend(Meanwhile(place.store, place.mend))
    assert [type(each.error) for each in done] == [ClaimedError]
    assert told(place.mend()) == []
    check_ended(place)


def test_the_failure_of_a_partition_is_said_once(place):
    """Nothing tells whose segments these are."""
    place.store.replace(keys.cluster(PARTITION), b"{")
    done, failures = place.mend()
    assert done == []
    assert len(failures) == 1 and "cluster.json" in failures[0].message


def test_mend_without_a_cluster_leaves_a_topic_that_unblock_has_begun(place):
    begun = SavedConfigs(CLUSTER, PARTITION.topic, PARTITION.topic_id, (0,), {"remote.log.copy.disable": None})
    SavedConfigsStore(place.store).put(begun)
    before = place.objects()
    done, failures = place.mend()
    assert (done, place.objects()) == ([], before)
    assert len(failures) == 1 and "unblock has begun" in failures[0].message


def leave_rest(place: Place, is_log: bool) -> None:
    """Leave only the log of the wrong segment, or all but that, when `tier` has replaced it.

    A claim keeps the rest, as a broker might know it.
    """
    kept = claim_protocol.reopen(
        place.store, place.claim(), Attempt(new_segment_id(), "killed", None, GONE), is_whole=True
    )
    assert kept.kept == (place.wrong.segment_id,)
    claim_protocol.release(place.store, kept)
    place.store.delete([key for key in place.wrong.keys if key.endswith(".log") is not is_log])
    place.store.time += DAY  # or it looks like a copy under way
    tierer = Tierer("run", NOW, wait=0)
    rows = rows_of(tier_partition(place.location, PARTITION, planned(place.logs / "orders-0"), tierer))
    assert [row["error"] for row in rows] == [None] * len(rows)
    assert has_rest(place), "tier leaves what the claim keeps"


def has_rest(place: Place) -> bool:
    return any(place.wrong.segment_id in key for key in place.objects())


@pytest.mark.parametrize("is_log", [False, True], ids=["all but its log", "its log"])
def test_what_is_left_of_a_segment_that_was_replaced_goes_with_mend(place: Place, is_log: bool) -> None:
    leave_rest(place, is_log)
    done, failures = place.mend()
    assert (done, failures) == ([], [])
    assert not has_rest(place)
    assert place.claim().kept == ()
    assert place.sound() == {0, 5, 10}


@pytest.mark.parametrize("is_log", [False, True], ids=["all but its log", "its log"])
def test_what_is_left_of_a_replaced_segment_stays_until_the_other_is_sound(place: Place, is_log: bool) -> None:
    leave_rest(place, is_log)
    place.wrong, rest = place.segments()[1], place.wrong
    place.damage()
    done, failures = place.mend()
    assert ([each.outcome for each in done], failures) == ([MendOutcome.MENDED], [])
    place.wrong = rest
    assert has_rest(place)
    assert place.mend() == ([], [])
    assert not has_rest(place)
    assert place.sound() == {0, 5, 10}
