"""What the objects of a store say is finished: what `publish` tells the brokers."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reference import log_builder as lb
from tests.reference.planned import PARTITION, TOPIC_ID, planned, write_log
from tests.reference.tiered import rows_of, tier
from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim, finish
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.finished import finished_of, finished_segments, largest_timestamp
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition

pytestmark = pytest.mark.unit

NOW = 1_700_000_000_000
WRITTEN = 1_600_000_000_000  # ms
OTHER_ID = "MWJ6FHTfRYy67jzwZdeqSQ"
OTHER = TopicIdPartition("payments", OTHER_ID, 0)


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_log(tmp_path / "logs")


def published(store, layout, wanted="orders"):
    return finished_segments(RemoteLocation(store, layout), lambda topic: topic == wanted)


def date_objects(store: DirectoryStore, stem: str) -> None:
    """Let every object of a copy have been written at WRITTEN."""
    for path in store.root.rglob(f"{stem}*"):
        os.utime(path, ns=(WRITTEN * 1_000_000, WRITTEN * 1_000_000))


def test_each_complete_copy_is_told_with_all_that_the_brokers_need(store, layout, folder):
    tiered = tier(folder, store, layout=layout)
    found = published(store, layout)
    assert [
        replace(each, broker_id=1, max_timestamp=0, event_timestamp=0, state=tiered[0].state) for each in found
    ] == [replace(each, max_timestamp=0, event_timestamp=0) for each in tiered]
    assert {(each.state, each.broker_id) for each in found} == {(SegmentState.COPY_SEGMENT_FINISHED, -1)}
    assert published(store, layout, "other") == []
    assert finished_of(RemoteLocation(store, layout), PARTITION) == found


def test_what_the_other_layout_and_others_wrote_is_left_alone(store, layout, folder):
    other = AivenLayout() if isinstance(layout, LocalTieredStorageLayout) else LocalTieredStorageLayout()
    tier(folder, store, layout=other)
    store.put_if_absent("readme.txt", b"somebody else's")
    assert published(store, layout) == []
    assert len(published(store, other)) == 3


def test_half_a_copy_is_none(store, layout, folder):
    (first, *others) = tier(folder, store, layout=layout)
    store.delete([layout.object_keys(first)[2]])
    assert [each.id for each in published(store, layout)] == [each.id for each in others]


def test_the_largest_timestamp_is_the_segments(store, layout, tmp_path):
    """Of all its batches, wherever in the segment it is: by manifest, or by the end of the time index."""
    batches = {0: [3000, 9000], 10: [8000, 7000], 20: [1000, 2000]}
    segments = {
        base: [lb.data_batch(base + 5 * turn, 5, 7, 0, base + 5 * turn, timestamp=at) for turn, at in enumerate(times)]
        for base, times in batches.items()
    }
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=30, topic_id=TOPIC_ID)
    for row in rows_of(tier_partition(RemoteLocation(store, layout), PARTITION, planned(folder), Tierer("run", NOW))):
        assert row["error"] is None
    assert [each.max_timestamp for each in published(store, layout)] == [9004, 8004], "records are 1 ms apart"


def test_batches_without_timestamps_are_published_with_the_time_of_the_object(store, layout, tmp_path):
    """Published with -1 a real broker deletes them, here and remotely, at its next retention check."""
    segments = {offset: [lb.data_batch(offset, 1, 7, 0, offset, timestamp=-1)] for offset in (0, 1)}
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=2, topic_id=TOPIC_ID)
    (ready,) = planned(folder)
    assert ready.max_timestamp == -1
    rows = rows_of(tier_partition(RemoteLocation(store, layout), PARTITION, [ready], Tierer("run", NOW)))
    assert rows[-1]["state"] == "COPY_SEGMENT_FINISHED"
    (copy,) = published(store, layout)
    date_objects(store, f"{0:020d}-{copy.id.segment_id}")
    (copy,) = published(store, layout)
    assert copy.max_timestamp == copy.event_timestamp == WRITTEN


@pytest.mark.parametrize("content", [b"", b"x" * 11, (1 << 63).to_bytes(8, "big") + bytes(4)], ids=["0", "torn", "-"])
def test_a_time_index_that_tells_nothing_leaves_the_time_of_the_object(store, folder, content):
    layout = LocalTieredStorageLayout()
    (copy,) = tier(folder, store, layout=layout, bases={5})
    store.replace(keys.segment(KeyKind.LOCAL_TIME_INDEX, copy), content)
    date_objects(store, f"{5:020d}-{copy.id.segment_id}")
    assert [each.max_timestamp for each in published(store, layout)] == [WRITTEN]


def test_a_manifest_of_somebody_that_says_no_timestamp_is_not_believed(store, folder):
    layout = AivenLayout()
    (copy,) = tier(folder, store, layout=layout, bases={5})
    key = keys.segment(KeyKind.RSM_MANIFEST, copy)
    manifest = json.loads(store.get(key))
    manifest["remoteLogSegmentMetadata"]["maxTimestampMs"] = -1
    store.replace(key, json.dumps(manifest).encode())
    date_objects(store, f"{5:020d}-{copy.id.segment_id}")
    assert [each.max_timestamp for each in published(store, layout)] == [WRITTEN]


def test_a_largest_timestamp_of_the_first_millisecond_of_all_is_believed(store, layout, folder):
    tier(folder, store, layout=layout, bases={5})
    (found,) = list_remote_partition(RemoteLocation(store, layout), PARTITION).segments
    logs = {kind: info for kind, info in found.objects.objects.items() if kind.suffix == ".log"}
    bare = replace(found.objects, objects=logs)
    told = [replace(found, objects=bare, metadata=replace(found.metadata, max_timestamp=told)) for told in (-1, 0, 1)]
    assert [largest_timestamp(store, each) for each in told] == [bare.modified, 0, 1]


def test_what_another_attempt_has_finished_without_is_left_out(store, layout, folder, caplog):
    first, second = (tier(folder, store, layout=layout, bases={5})[0] for _ in range(2))
    segment = ClaimedSegment(PARTITION, 5, 0)
    claim(store, segment, Attempt.of(first.id.segment_id, "run"))
    taken = claim(store, segment, Attempt.of(second.id.segment_id, "run"))
    assert published(store, layout) == [], "which of them will count is not decided"
    finish(store, taken)
    caplog.clear()
    assert [each.id for each in published(store, layout)] == [second.id]
    assert caplog.text == "", "nothing has to be tiered again"


def test_a_copy_whose_attempt_was_killed_before_it_said_so_waits_for_the_next_run(store, layout, folder, caplog):
    (copy,) = tier(folder, store, layout=layout, bases={5})
    taken = claim(store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(copy.id.segment_id, "run"))
    assert published(store, layout) == []
    assert "its claim is not finished" in caplog.text
    finish(store, taken)
    assert [each.id for each in published(store, layout)] == [copy.id]


def test_a_copy_of_a_broker_counts_whatever_attempts_of_ours_are_at_the_segment(store, layout, folder, caplog):
    (copy,) = tier(folder, store, layout=layout, bases={5})
    claim(store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(new_segment_id(), "run"))
    assert [each.id for each in published(store, layout)] == [copy.id]

    store.replace(keys.claim(PARTITION, 5, 0), b"{")
    assert published(store, layout) == [], "whose it is nobody knows"
    assert "not a claim" in caplog.text


class Forgetful(DirectoryStore):
    """A store in which each claim is deleted between the listing that shows it and the look at it."""

    def read(self, key: str, *args: Any, **more: Any) -> Any:
        if key.startswith("claims/"):
            raise ObjectNotFoundError(key)
        return super().read(key, *args, **more)


def test_a_copy_whose_claim_goes_while_it_is_asked_for_is_as_one_that_nobody_claimed(store, layout, folder):
    (copy,) = tier(folder, store, layout=layout, bases={5})
    claim(store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(copy.id.segment_id, "run"))
    assert [each.id for each in published(Forgetful(store.root), layout)] == [copy.id]


def test_an_older_copy_without_which_another_attempt_finished_is_none_though_that_attempts_copy_is_gone(
    store, layout, folder, caplog
):
    """Of a partition's claims those are read that are newer than the first finished one; of the others one by one."""
    older, newer = tier(folder, store, layout=layout, bases={5, 10})
    finish(store, claim(store, ClaimedSegment(PARTITION, 10, 0), Attempt.of(newer.id.segment_id, "run")))
    segment = ClaimedSegment(PARTITION, 5, 0)
    claim(store, segment, Attempt.of(older.id.segment_id, "run"))
    finish(store, claim(store, segment, Attempt.of(new_segment_id(), "run")))
    assert [each.id for each in published(store, layout)] == [newer.id]
    assert "upload the segment again with tier" in caplog.text
