import base64

import pytest

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.metadata.segment_metadata import (
    ALLOWED_TRANSITIONS,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    is_uuid,
    new_segment_id,
)

pytestmark = pytest.mark.unit

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"

# kafka-storage: from (or nothing), then the states it may go to
ALLOWED = {None: {0}, 0: {0, 1, 2}, 1: {1, 2}, 2: {2, 3}, 3: {3}}


def test_states_go_where_kip_405_lets_them():
    assert {before: set(map(int, after)) for before, after in ALLOWED_TRANSITIONS.items()} == ALLOWED


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


@pytest.mark.parametrize("changes", [{"start_offset": -1}, {"end_offset": -1}, {"segment_leader_epochs": ()}])
def test_metadata_that_kafka_refuses_is_refused(changes):
    with pytest.raises(InvalidKeyError):
        metadata(**changes)
