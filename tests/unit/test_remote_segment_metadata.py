import base64
import itertools

import pytest

from tiersnap.remote_storage.errors import IllegalStateTransitionError, InvalidKeyError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    check_transition,
    is_uuid,
    new_segment_id,
)
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"

# kafka-storage: from (or nothing), then the states it may go to
ALLOWED = {None: {0}, 0: {0, 1, 2}, 1: {1, 2}, 2: {2, 3}, 3: {3}}


@pytest.mark.parametrize(("before", "after"), list(itertools.product([None, 0, 1, 2, 3], range(4))))
def test_states_go_where_kip_405_lets_them(before, after):
    state = None if before is None else SegmentState(before)
    if after in ALLOWED[before]:
        check_transition(state, SegmentState(after))
    else:
        with pytest.raises(IllegalStateTransitionError, match=SegmentState(after).name) as raised:
            check_transition(state, SegmentState(after))
        assert "allowed next" in raised.value.hint
        assert raised.value.exit_code is ExitCode.UNEXPECTED


def test_segment_ids_are_kafka_uuids_that_do_not_look_like_flags():
    ids = {new_segment_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(is_uuid(text) and not text.startswith("-") for text in ids)


def test_a_uuid_has_one_spelling():
    assert is_uuid(TOPIC_ID)
    assert is_uuid(base64.urlsafe_b64encode(bytes(16)).decode().rstrip("="))
    # the last character carries two bits only
    assert not is_uuid(TOPIC_ID[:-1] + "R")
    assert not any(map(is_uuid, ["", TOPIC_ID + "A", TOPIC_ID[:-1], "!" * 22, "AAAAAAAAAA-no-topic-id"]))


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "ü", "x" * 250, "a\n"])
def test_topic_names_that_kafka_refuses_are_refused(topic):
    with pytest.raises(InvalidKeyError, match="topic name"):
        TopicIdPartition(topic, None, 0)


def test_a_segment_id_needs_a_topic_id_and_two_uuids():
    assert RemoteLogSegmentId("t", TOPIC_ID, 0, TOPIC_ID).topic_id_partition == TopicIdPartition("t", TOPIC_ID, 0)
    for bad in (("t", "short", 0, TOPIC_ID), ("t", TOPIC_ID, 0, "short"), ("t", TOPIC_ID, -1, TOPIC_ID)):
        with pytest.raises(InvalidKeyError):
            RemoteLogSegmentId(*bad)


def metadata(**changes: object) -> RemoteLogSegmentMetadata:
    values = {
        "id": RemoteLogSegmentId("topic1", TOPIC_ID, 42, "adh9f8BMS4anaUnD8KWfWg"),
        "start_offset": 0,
        "end_offset": 1000,
        "broker_id": 2,
        "max_timestamp": 1_700_000_000_000,
        "event_timestamp": 1_700_000_000_500,
        "segment_leader_epochs": ((0, 0), (3, 500)),
        "segment_size": 100_500,
        "state": SegmentState.COPY_SEGMENT_STARTED,
    }
    return RemoteLogSegmentMetadata(**{**values, **changes})


def test_metadata_walks_through_the_states():
    finished = metadata().to_state(SegmentState.COPY_SEGMENT_FINISHED, event_timestamp=1_700_000_000_900)
    assert (finished.state, finished.event_timestamp) == (SegmentState.COPY_SEGMENT_FINISHED, 1_700_000_000_900)
    assert finished.id == metadata().id
    with pytest.raises(IllegalStateTransitionError):
        finished.to_state(SegmentState.COPY_SEGMENT_STARTED, event_timestamp=0)


@pytest.mark.parametrize("changes", [{"start_offset": -1}, {"end_offset": -1}, {"segment_leader_epochs": ()}])
def test_metadata_that_kafka_refuses_is_refused(changes):
    with pytest.raises(InvalidKeyError):
        metadata(**changes)
