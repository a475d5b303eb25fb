"""Unfinished multipart uploads: those that a claim names are aborted, a plugin's are left alone."""

import pytest

from tests.reference.left_over import CLUSTER, DAY, put_snapshots
from tests.reference.planned import PARTITION, planned, write_log
from tests.reference.tiered import aiven, rows_of
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim
from tiersnap.remote_storage.metadata.segment_metadata import new_segment_id
from tiersnap.remote_storage.retire.orphan_kinds import Fate, OrphanKind
from tiersnap.remote_storage.retire.orphans import Aged
from tiersnap.remote_storage.retire.orphans_find import remove, unfinished
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition

pytestmark = pytest.mark.s3
ANY_AGE = -1


def begin_upload(store, segment_id: str) -> str:
    key = f"{keys.partition_segments(PARTITION)}{5:020d}-{segment_id}.log"
    begun = store.client.create_multipart_upload(Bucket=store.bucket, Key=store.prefix + key)
    store.client.upload_part(
        Bucket=store.bucket, Key=store.prefix + key, UploadId=begun["UploadId"], PartNumber=1, Body=b"x"
    )
    return key


def found_in(store, *, older_than: int = ANY_AGE, cluster_id: str = CLUSTER):
    return list(unfinished(store, Aged(store.now(), older_than), cluster_id, lambda _: True))


def test_an_upload_that_a_claim_names_is_aborted_and_a_plugins_is_left(s3_store):
    ours, theirs = new_segment_id(), new_segment_id()
    claim(s3_store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(ours, "run"))
    keys = {segment_id: begin_upload(s3_store, segment_id) for segment_id in (ours, theirs)}
    (young,) = found_in(s3_store, older_than=100 * 365 * DAY)  # moto dates every upload in 2010
    assert (young.action, young.segment_id) == (Fate.WAIT, ours), "a plugin's may be under way"
    found = found_in(s3_store)
    assert {each.segment_id: each.action for each in found} == {ours: Fate.REMOVE, theirs: Fate.LEAVE}
    assert {each.kind for each in found} == {OrphanKind.UPLOAD}
    assert [failures for _, failures in remove(s3_store, found)] == [()]
    assert [upload.key for upload in s3_store.unfinished_uploads()] == [keys[theirs]]


def test_an_upload_of_another_cluster_is_refused(s3_store):
    ours = new_segment_id()
    claim(s3_store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(ours, "run"))
    put_snapshots(s3_store, [5])
    begin_upload(s3_store, ours)
    (found,) = found_in(s3_store, cluster_id="AnotherClusterAnother_")
    assert found.action is Fate.REFUSE
    (found,) = found_in(s3_store)
    assert found.action is Fate.REMOVE


def test_an_upload_of_an_attempt_that_was_killed_goes_with_the_next_attempt_and_a_plugins_stays(s3_store, tmp_path):
    killed, theirs = new_segment_id(), new_segment_id()
    claim(s3_store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(killed, "run"))
    keys = {segment_id: begin_upload(s3_store, segment_id) for segment_id in (killed, theirs)}
    ready = planned(write_log(tmp_path / "logs"))[:2]
    rows = rows_of(tier_partition(aiven(s3_store), PARTITION, ready, Tierer("run", 1_700_000_000_000)))
    assert [row["error"] for row in rows] == [None] * 4
    assert [upload.key for upload in s3_store.unfinished_uploads()] == [keys[theirs]]
