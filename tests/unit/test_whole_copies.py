"""Which copies are whole, in the layout that is asked for and in the other one, whatever claims say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.flaky_store import FlakyStore
from tests.reference.planned import PARTITION, write_log
from tests.reference.tiered import tier
from tiersnap.remote_storage.errors import OtherLayoutError
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.complete import check_layout, complete_in_other_layout, complete_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

OTHER_PARTITION = TopicIdPartition(PARTITION.topic, PARTITION.topic_id, 1)
LOCAL = "local-tiered-storage"


@pytest.fixture(params=sorted(LAYOUTS))
def name(request) -> str:
    return request.param


@pytest.fixture
def tiered(store: DirectoryStore, tmp_path: Path, name: str) -> list[str]:
    """Segment ids of the three copies of a partition."""
    copies = tier(write_log(tmp_path / "logs"), store, layout=open_layout(name))
    return [each.id.segment_id for each in copies]


def test_of_the_copies_that_are_asked_for_those_are_whole_whose_objects_are_all_there(store, name, tiered):
    damaged, *rest = tiered
    location = open_location(store, name)
    whole = complete_segments(location, PARTITION, tiered)
    store.delete([next(info.key for info in store.list() if damaged in info.key)])
    asked = [damaged, rest[0], new_segment_id()]
    left = complete_segments(location, PARTITION, asked)
    assert (whole, left) == (frozenset(tiered), {rest[0]})
    assert complete_segments(location, OTHER_PARTITION, tiered) == frozenset()


def test_only_those_that_are_asked_for_are_looked_into(store, name, tiered):
    watched = FlakyStore(store, {}, counted={"list", "read", "get", "get_range", "head"})
    location = open_location(watched, name)
    assert complete_segments(location, PARTITION, tiered[:1]) == {tiered[0]}
    one = len(watched.calls)
    watched.calls.clear()
    assert len(complete_segments(location, PARTITION, tiered)) == 3
    assert len(watched.calls) - 1 == 3 * (one - 1) > 0


def test_a_copy_lies_in_the_other_layout_or_in_this_one_and_never_in_both(store, name, tiered):
    (wrong,) = LAYOUTS.keys() - {name}
    assert complete_in_other_layout(open_location(store, wrong), PARTITION, tiered) == frozenset(tiered)
    assert complete_in_other_layout(open_location(store, name), PARTITION, tiered) == frozenset()


def test_where_no_copy_is_asked_for_the_store_is_not_asked(store, name, tiered):
    watched = FlakyStore(store, {}, counted={"list", "read", "get", "get_range", "head"})
    assert complete_in_other_layout(open_location(watched, name), PARTITION, set()) == frozenset()
    assert watched.calls == []


def test_a_finished_copy_in_the_other_layout_is_refused_and_both_layouts_are_named(store, name, tiered):
    (wrong,) = LAYOUTS.keys() - {name}
    check_layout(open_location(store, name), PARTITION, tiered[0])
    with pytest.raises(OtherLayoutError, match=f"in the layout {name}, but this run uses {wrong}") as caught:
        check_layout(open_location(store, wrong), PARTITION, tiered[0])
    assert caught.value.exit_code is ExitCode.GATE_REFUSED
    assert caught.value.hint.startswith(f"give --layout {name};")


def test_a_finished_copy_that_is_gone_refuses_nothing(store, name, tiered):
    (wrong,) = LAYOUTS.keys() - {name}
    store.delete([info.key for info in store.list() if tiered[0] in info.key])
    check_layout(open_location(store, wrong), PARTITION, tiered[0])
