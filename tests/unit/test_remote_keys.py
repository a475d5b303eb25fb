import base64
import re
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind, ParsedKey
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.stores.probe import PROBES

pytestmark = pytest.mark.unit

TOPIC_ID, SEGMENT_ID = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ"

OURS_ALONE = {
    *(KeyKind.SNAPSHOT, KeyKind.SNAPSHOT_MANIFEST, KeyKind.CLUSTER),
    *(KeyKind.CLAIM, KeyKind.MANIFESTS, KeyKind.UNBLOCK),
}
topics = st.one_of(
    st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=60),
    # topics that look like other parts of a key
    st.sampled_from(
        ["a-0", "no-topic-id", "x-no-topic-id", f"t-{TOPIC_ID}", "snapshots", "claims", "kafka-tiered-storage", "-"]
    ),
    st.just("x" * 249),
).filter(lambda topic: topic not in {".", ".."})
uuids = st.binary(min_size=16, max_size=16).map(lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("="))
offsets = st.integers(0, (1 << 63) - 1)
partitions = st.integers(0, (1 << 31) - 1)
run_ids = st.from_regex(re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+~=-]{0,40}", re.ASCII), fullmatch=True)

segment_kinds = st.sampled_from([k for k in KeyKind if k not in OURS_ALONE])
with_id = st.builds(TopicIdPartition, topics, uuids, partitions)
maybe_id = st.builds(TopicIdPartition, topics, st.none() | uuids, partitions)
parsed_keys = st.one_of(
    st.builds(lambda kind, p, offset, sid: ParsedKey(kind, p, offset, sid), segment_kinds, with_id, offsets, uuids),
    st.builds(lambda p, offset: ParsedKey(KeyKind.SNAPSHOT, p, offset), maybe_id, offsets),
    st.builds(lambda p, run: ParsedKey(KeyKind.SNAPSHOT_MANIFEST, p, run_id=run), maybe_id, run_ids),
    st.builds(lambda p: ParsedKey(KeyKind.CLUSTER, p), maybe_id),
    st.builds(
        lambda p, offset, epoch: ParsedKey(KeyKind.CLAIM, p, offset, leader_epoch=epoch),
        with_id,
        offsets,
        st.integers(0, (1 << 31) - 1),
    ),
    st.builds(ParsedKey, st.just(KeyKind.MANIFESTS), with_id),
    st.builds(lambda topic, topic_id: ParsedKey(KeyKind.UNBLOCK, TopicIdPartition(topic, topic_id, 0)), topics, uuids),
)


def key_of(key: ParsedKey) -> str:
    """The key with these parts."""
    at, offset = key.partition, key.offset or 0
    made = {
        KeyKind.SNAPSHOT_MANIFEST: lambda: keys.snapshot_manifest(at, key.run_id or ""),
        KeyKind.SNAPSHOT: lambda: keys.snapshot(at, offset),
        KeyKind.CLUSTER: lambda: keys.cluster(at),
        KeyKind.CLAIM: lambda: keys.claim(at, offset, key.leader_epoch or 0),
        KeyKind.MANIFESTS: lambda: keys.manifests(at),
        KeyKind.UNBLOCK: lambda: keys.unblock(at.topic, at.topic_id or ""),
    }
    if key.kind in made:
        return made[key.kind]()
    segment_id = RemoteLogSegmentId(at.topic, at.topic_id or "", at.partition, key.segment_id or "")
    return keys.segment(key.kind, replace(metadata(), id=segment_id, start_offset=offset, end_offset=offset + 9))


@given(parsed_keys)
def test_a_key_says_what_it_was_made_of(key):
    text = key_of(key)
    assert keys.parse(text) == keys.recognise(text) == key


@given(st.lists(parsed_keys, min_size=2, max_size=5, unique=True))
def test_no_two_things_have_one_key(things):
    assert len({key_of(thing) for thing in things}) == len(things)


@given(st.text(max_size=80))
def test_what_is_not_a_key_is_refused_by_name(text):
    with pytest.raises(InvalidKeyError, match="key"):
        keys.parse(text)
    assert keys.recognise(text) is None


def metadata(topic: str = "payments", offset: int = 1234) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(topic, TOPIC_ID, 7, SEGMENT_ID),
        start_offset=offset,
        end_offset=offset + 9,
        broker_id=1,
        max_timestamp=0,
        event_timestamp=0,
        segment_leader_epochs=((0, offset),),
        segment_size=1,
        state=SegmentState.COPY_SEGMENT_STARTED,
    )


def test_the_examples_of_the_grammar_are_keys():
    text = keys.__doc__ or ""
    examples = re.findall(r"^    (\S*(?:payments|old\.topic)\S*)$", text, re.MULTILINE)
    assert len(examples) == 10
    for example in examples:
        assert key_of(keys.parse(example)) == example


def test_segment_keys_are_those_of_the_plugins():
    stem = f"00000000000000001234-{SEGMENT_ID}"
    assert [keys.segment(kind, metadata()) for kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)] == [
        f"payments-{TOPIC_ID}/7/{stem}.log",
        f"payments-{TOPIC_ID}/7/{stem}.indexes",
        f"payments-{TOPIC_ID}/7/{stem}.rsm-manifest",
    ]
    assert keys.segment(KeyKind.LOCAL_LEADER_EPOCHS, metadata("a.b-c")) == (
        f"kafka-tiered-storage/a.b-c-7-{TOPIC_ID}/{stem}.leader_epoch_checkpoint"
    )


def test_stems_and_folders_belong_to_one_segment_or_partition():
    for local in (False, True):
        stem = keys.segment_stem(metadata(), local=local)
        kinds = [kind for kind in KeyKind if kind.is_local is local and kind not in OURS_ALONE]
        assert len(kinds) == (6 if local else 3)
        assert all(keys.segment(kind, metadata()).startswith(stem) for kind in kinds)
        folder = keys.partition_segments(metadata().id.topic_id_partition, local=local)
        assert stem.startswith(folder)
        assert folder.endswith("/")
    seven, seventy = TopicIdPartition("t", TOPIC_ID, 7), TopicIdPartition("t", TOPIC_ID, 70)
    assert not keys.partition_snapshots(seventy).startswith(keys.partition_snapshots(seven))


def test_a_topic_without_id_can_have_snapshots_and_no_remote_segments():
    old = TopicIdPartition("old.topic", None, 3)
    assert keys.snapshot(old, 42) == "snapshots/old.topic-no-topic-id/3/00000000000000000042.snapshot"
    assert keys.snapshot_manifest(old, "r.1") == "snapshots/old.topic-no-topic-id/3/manifest-r.1.json"
    with pytest.raises(InvalidKeyError, match="topic id"):
        keys.partition_segments(old)


def test_claims_lie_by_themselves_below_our_prefix():
    partition = metadata().id.topic_id_partition
    key = keys.claim(partition, 1234, 5)
    assert key == f"claims/payments-{TOPIC_ID}/7/00000000000000001234-5.json"
    assert key.startswith(keys.partition_claims(partition))
    for folder in (keys.partition_segments(partition), keys.partition_snapshots(partition)):
        assert not key.startswith(folder)
    assert not keys.partition_claims(partition).startswith(PROBES)


def test_what_unblock_puts_back_lies_beside_the_claims_of_all_partitions():
    partition = metadata().id.topic_id_partition
    key = keys.unblock("payments", TOPIC_ID)
    assert key == f"claims/payments-{TOPIC_ID}/unblock.json"
    assert not key.startswith(keys.partition_claims(partition))
    with pytest.raises(InvalidKeyError, match="topic id"):
        keys.unblock("payments", "../x")


@pytest.mark.parametrize("epoch", [-1, 1 << 31])
def test_no_claim_is_made_of_what_is_no_leader_epoch(epoch):
    with pytest.raises(InvalidKeyError, match="not a leader epoch"):
        keys.claim(metadata().id.topic_id_partition, 0, epoch)
    assert keys.recognise(f"claims/payments-{TOPIC_ID}/7/00000000000000001234-{epoch}.json") is None


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_no_key_is_made_of_what_is_no_offset(offset):
    with pytest.raises(InvalidKeyError, match="not an offset"):
        keys.snapshot(TopicIdPartition("t", None, 0), offset)


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "-x", "x" * 129, "a b"])
def test_run_ids_cannot_leave_their_folder(run_id):
    with pytest.raises(InvalidKeyError, match="run id"):
        keys.snapshot_manifest(TopicIdPartition("t", None, 0), run_id)
