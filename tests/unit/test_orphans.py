"""What tiersnap left and nobody knows goes, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.left_over import (
    CLUSTER,
    DAY,
    copies,
    finished,
    known,
    make_old,
    orphans,
    put_snapshots,
    removable,
    tier_ours,
)
from tests.reference.planned import PARTITION, planned, write_log, write_replica_that_rolled_later
from tests.reference.tiered import age, tier
from tests.unit.test_replace_wrong import flipped
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim, finish
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, new_segment_id
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id
from tiersnap.remote_storage.remote_log.partition_objects import list_all
from tiersnap.remote_storage.retire.orphan_kinds import Fate, OrphanKind
from tiersnap.remote_storage.retire.orphans import Aged
from tiersnap.remote_storage.retire.orphans_find import remove, unfinished
from tiersnap.remote_storage.retire.store_leftovers import judge_saved_configs
from tiersnap.remote_storage.stores.directory_files import UNFINISHED
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import UnfinishedUpload
from tiersnap.remote_storage.stores.probe import PROBES
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition

pytestmark = pytest.mark.unit

DELETED = SegmentState.DELETE_SEGMENT_FINISHED


def tier_of_two_replicas(store, layout, tmp_path) -> RemoteLogSegmentMetadata:
    """Tier the first segment of a replica, and then all of one whose first segment is longer; returns that copy."""
    shorter, longer = write_log(tmp_path / "logs"), write_replica_that_rolled_later(tmp_path / "longer")
    for segments in (planned(shorter)[:1], planned(longer)):
        tierer = Tierer("run-1", 1_700_000_000_500, wait=0)
        rows = list(tier_partition(RemoteLocation(store, layout), PARTITION, segments, tierer, cluster_id=CLUSTER))
        assert [row.error for row in rows] == [None] * len(rows)
    (first,) = (each for each in finished(store, layout) if each.end_offset == 4)
    return first


def keys_of(store, *segment_ids: str) -> set[str]:
    return {info.key for info in store.list() if any(each in info.key for each in segment_ids)}


def published(copy):
    return replace(copy, state=SegmentState.COPY_SEGMENT_FINISHED)


def brokers_copies(store, layout, log_dir: Path) -> list:
    """Copies of the same log that no claim names."""
    return tier(log_dir / "orders-0", store, layout=layout)


def test_copy_that_a_longer_one_of_another_replica_replaced_goes(store, layout, tmp_path):
    shorter = tier_of_two_replicas(store, layout, tmp_path)
    others = [each for each in finished(store, layout) if each != shorter]
    assert [(each.start_offset, each.end_offset) for each in others] == [(0, 9), (10, 14)]
    make_old(store)

    its_keys = keys_of(store, shorter.id.segment_id)
    assert not its_keys & removable(orphans(store, known(published(shorter))))
    assert its_keys <= removable(orphans(store, known(*map(published, others))))
    deleted = known(*(replace(each, state=DELETED) for each in others), log_start=None)
    assert keys_of(store, *copies(store)) <= removable(orphans(store, deleted)), "nothing of a deleted topic stays"


def test_copies_that_were_published_while_their_topic_was_deleted_go(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    first, *rest = finished(store, layout)
    theirs = brokers_copies(store, layout, tmp_path / "logs")
    make_old(store)
    told = known(*(replace(each, state=DELETED) for each in rest), published(first), *theirs, log_start=None)

    (refused,) = (each for each in orphans(store, told) if each.action is Fate.REFUSE)
    assert "has not deleted the topic's remote segments" in refused.reason, "this user may not see the topic"
    found = orphans(store, replace(told, is_absent=True))
    assert keys_of(store, *(each.id.segment_id for each in (first, *rest))) <= removable(found)
    assert not keys_of(store, *(each.id.segment_id for each in theirs)) & removable(found)


def test_extra_copies_of_ours_go_and_those_that_the_cluster_knows_stay(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    ours = [each.id.segment_id for each in finished(store, layout)]
    theirs = brokers_copies(store, layout, tmp_path / "logs")
    make_old(store)
    told = known(*map(published, theirs))
    found = orphans(store, told)
    assert removable(found) == keys_of(store, *ours)
    assert all(not failures for _, failures in remove(store, found))
    assert copies(store) == {each.id.segment_id for each in theirs}
    assert orphans(store, told) == []


@pytest.mark.parametrize("finished_elsewhere", [True, False])
def test_a_copy_in_the_other_layout_supersedes_none_in_this_one(store, layout, tmp_path, finished_elsewhere):
    """The claims say that the copies of another attempt count: in the layout that was asked for, or in the other."""
    other = LocalTieredStorageLayout() if isinstance(layout, AivenLayout) else AivenLayout()
    right = tier(write_log(tmp_path / "logs"), store, layout=layout)
    wrong = tier(tmp_path / "logs" / "orders-0", store, layout=other if finished_elsewhere else layout)
    for first, second in zip(right, wrong, strict=True):
        segment = ClaimedSegment(PARTITION, first.start_offset, 0)
        claim(store, segment, Attempt.of(first.id.segment_id, "run-1"))
        finish(store, claim(store, segment, Attempt.of(second.id.segment_id, "run-1")))
    put_cluster_id(store, PARTITION, CLUSTER)
    make_old(store)

    counts = right if finished_elsewhere else wrong
    assert [each.id for each in finished(store, layout)] == [each.id for each in counts]
    # Of what the cluster knows one copy is enough; of what it does not know that which may be published stays.
    gone = wrong[:1] if finished_elsewhere else right
    found = orphans(store, known(published(counts[0])))
    assert removable(found) == keys_of(store, *(each.id.segment_id for each in gone))


def test_what_may_still_be_published_is_left_and_named(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    first, *others = finished(store, layout)
    found = orphans(store, known(first))
    assert [each.segment_id for each in found] == [each.id.segment_id for each in others]
    assert {each.action for each in found} == {Fate.LEAVE}
    assert all("tiersnap publish" in each.reason for each in found)


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_a_copy_that_nobody_finished_is_left_and_tiered_before_it_is_published(store, layout, tmp_path, is_overtaken):
    ids = [each.id.segment_id for each in tier(write_log(tmp_path / "logs"), store, layout=layout)[:1]]
    for segment_id in [*ids, new_segment_id()][: 1 + is_overtaken]:
        claim(store, ClaimedSegment(PARTITION, 0, 0), Attempt.of(segment_id, "run-1"))
    make_old(store)
    ((action, reason),) = [(each.action, each.reason) for each in orphans(store, known()) if each.segment_id in ids]
    assert action is Fate.LEAVE
    assert reason.index("tiersnap tier --apply") < reason.index("tiersnap publish")


def test_a_copy_of_a_newer_leader_epoch_is_not_covered_by_what_was_published_before_the_election(
    store, layout, tmp_path
):
    tier_ours(store, layout, tmp_path / "logs")
    theirs = [published(each) for each in brokers_copies(store, layout, tmp_path / "logs")]
    make_old(store)
    older = [replace(each, segment_leader_epochs=((-1, each.start_offset),)) for each in theirs]
    assert len(removable(orphans(store, known(*theirs)))) > 0
    assert removable(orphans(store, known(*older))) == set()


def test_a_copy_whose_offsets_no_other_whole_copy_holds_stays_whatever_the_records_say(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    told = finished(store, layout)
    assert not store.delete(layout.object_keys(told[1]))
    (tmp_path / "again").mkdir()
    tier_ours(store, layout, tmp_path / "again", run_id="run-2")
    make_old(store)
    found = orphans(store, known(*told))
    assert [(each.kind, each.action) for each in found] == [(OrphanKind.COPY, Fate.LEAVE)]
    assert "lost objects" in found[0].reason
    assert [each.start_offset for each in finished(store, layout)] == [0, 5, 10]
    # Below the log start nobody needs it.
    assert removable(orphans(store, known(*told, log_start=10))) == keys_of(store, found[0].segment_id)


def test_a_superseded_attempt_stays_while_the_one_that_finished_has_lost_an_object(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    first, *_ = brokers_copies(store, layout, tmp_path / "logs")
    (ours,) = [each for each in finished(store, layout) if each.start_offset == 0 and each.id != first.id]
    key = keys.claim(PARTITION, 0, 0)
    claimed = Claim.decode(store.get(key), name=key)
    attempts = (Attempt.of(first.id.segment_id, "run-0"), *claimed.attempts)
    (store.root / key).write_bytes(structs.replace(claimed, attempts=attempts).encode())
    make_old(store)
    told = known(*(each for each in finished(store, layout) if each.start_offset > 0))
    assert keys_of(store, first.id.segment_id) <= removable(orphans(store, told))
    store.delete([layout.object_keys(ours)[0]])
    assert keys_of(store, first.id.segment_id).isdisjoint(removable(orphans(store, told)))


@pytest.mark.parametrize("state", list(SegmentState))
def test_only_without_a_record_or_with_that_of_its_deletion_a_copy_goes(store, layout, tmp_path, state):
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    first, *others = finished(store, layout)
    found = orphans(store, known(replace(first, state=state), *others))
    assert removable(found) == (keys_of(store, first.id.segment_id) if state is DELETED else set())


def test_a_record_that_makes_no_sense_keeps_the_copy(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    first, *others = finished(store, layout)
    told = known(*others, doubtful=frozenset({first.id.segment_id}))
    assert orphans(store, told) == []


def test_what_is_younger_than_the_grace_is_left_alone(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    everything = [replace(each, state=DELETED) for each in finished(store, layout)]
    first = everything[0].id.segment_id
    make_old(store, but=first)
    found = orphans(store, known(*everything))
    assert not any(first in key for key in removable(found))
    assert len({each.segment_id for each in found if each.action is Fate.REMOVE}) == 2
    assert removable(orphans(store, known(*everything), older_than=10 * DAY)) == set()


def test_orphans_say_when_what_is_too_young_may_go(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    put_snapshots(store, [5])
    written = {info.key: info.modified for info in store.list()}
    found = orphans(store, known(log_start=None, records=deleted(finished(store, layout))))
    assert {each.action for each in found} == {Fate.WAIT}
    kept = [key for key in written if key.startswith(("claims/", "snapshots/")) and not key.endswith("05.snapshot")]
    assert {key for each in found for key in each.keys} == written.keys() - kept
    for each in found:
        assert each.removable_at == max(written[key] for key in each.keys) + DAY + 1
        assert each.reason.startswith("removable from 20")


def test_orphans_do_not_count_what_may_yet_be_published(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    assert orphans(store, known()) == []


def deleted(segments):
    """Records of a cluster that has deleted all of them."""
    return {each.id.segment_id: replace(each, state=DELETED) for each in segments}


def test_one_young_object_keeps_the_whole_copy(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    everything = [replace(each, state=DELETED) for each in finished(store, layout)]
    make_old(store, but=f"{everything[0].id.segment_id}.log")
    assert not any(everything[0].id.segment_id in key for key in removable(orphans(store, known(*everything))))


def test_what_no_claim_names_is_named_only(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    ours = finished(store, layout)
    theirs = brokers_copies(store, layout, tmp_path / "logs")
    make_old(store)
    found = orphans(store, known(*ours))
    assert {each.segment_id for each in found} == {each.id.segment_id for each in theirs}
    assert {(each.action, each.reason) for each in found} == {(Fate.LEAVE, "no claim of tiersnap names the segment")}


def killed_attempt(store, layout, start: int, **objects: bytes) -> str:
    """Objects of a killed attempt by their suffixes; its id."""
    killed = new_segment_id()
    claim(store, ClaimedSegment(PARTITION, start, 0), Attempt.of(killed, "run-2"))
    folder = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    for suffix, data in objects.items():
        store.put_if_absent(f"{folder}{start:020d}-{killed}.{suffix}", data)
    make_old(store)
    return killed


def test_what_a_killed_attempt_left_without_a_log_goes(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    published = finished(store, layout)
    suffix = "index" if isinstance(layout, LocalTieredStorageLayout) else "indexes"
    killed = killed_attempt(store, layout, 15, **{suffix: b"half"})
    (found,) = orphans(store, known(*published))
    assert (found.kind, found.segment_id, found.action) == (OrphanKind.ATTEMPT, killed, Fate.REMOVE)


@pytest.mark.parametrize(
    ("start", "action", "reason"),
    [
        (10, Fate.REMOVE, "the upload of the segment was never finished"),
        (
            15,
            Fate.LEAVE,
            "the remote log of the cluster ends at offset 15; to upload these offsets again: tiersnap tier --apply",
        ),
    ],
)
def test_a_killed_attempts_log_goes_once_other_segments_hold_its_offsets(
    store, layout, tmp_path, start, action, reason
):
    """The active segment is nowhere else."""
    put_cluster_id(store, PARTITION, CLUSTER)
    theirs = tier(write_log(tmp_path / "logs"), store, layout=layout)
    log = (tmp_path / "logs" / "orders-0" / f"{start:020d}.log").read_bytes()
    killed = killed_attempt(store, layout, start, log=log)
    (found,) = orphans(store, known(*map(published, theirs)))
    assert (found.kind, found.segment_id, found.action) == (OrphanKind.ATTEMPT, killed, action)
    assert reason in found.reason


def test_a_damaged_log_of_a_killed_attempt_is_named_only(store, layout, tmp_path):
    """Nothing tells how far it reached."""
    put_cluster_id(store, PARTITION, CLUSTER)
    theirs = tier(write_log(tmp_path / "logs"), store, layout=layout)
    killed_attempt(store, layout, 10, log=b"half")
    (found,) = orphans(store, known(*map(published, theirs)))
    assert (found.action, "delete this segment by hand" in found.reason) == (Fate.LEAVE, True), found.reason


def cut(store: DirectoryStore, key: str) -> None:
    store.replace(key, store.get(key)[: len(store.get(key)) // 2])


def flip(store: DirectoryStore, key: str) -> None:
    store.replace(key, flipped(store.get(key)))


def beside_a_damaged_copy(store, layout, tmp_path, damage) -> tuple[str, RemoteLogSegmentMetadata]:
    """Of two copies of the segment at 5 the one in the records is damaged; the id of the other, and the record."""
    tier_ours(store, layout, tmp_path / "logs")
    ours = finished(store, layout)[1].id.segment_id
    known_one = brokers_copies(store, layout, tmp_path / "logs")[1]
    damage(store, layout.log_key(known_one))
    make_old(store)
    return ours, published(known_one)


def test_the_only_right_log_stays_if_its_manifest_is_damaged(store, tmp_path):
    """It was deleted: nobody could tell what it holds."""
    ours, record = beside_a_damaged_copy(store, AivenLayout(), tmp_path, cut)
    (manifest,) = (key for key in keys_of(store, ours) if key.endswith(".rsm-manifest"))
    cut(store, manifest)
    make_old(store)
    (found,) = (each for each in orphans(store, known(record)) if each.segment_id == ours)
    assert (found.kind, found.action) == (OrphanKind.COPY, Fate.LEAVE)
    assert "published segments lost objects; next: tiersnap mend --depth full" in found.reason


def test_the_only_right_log_stays_if_its_indexes_are_lost(store, layout, tmp_path):
    """The one in the records has the right size and a wrong bit."""
    ours, record = beside_a_damaged_copy(store, layout, tmp_path, flip)
    store.delete([key for key in keys_of(store, ours) if key.endswith(("index", ".indexes"))])
    (found,) = (each for each in orphans(store, known(record)) if each.segment_id == ours)
    assert (found.kind, found.action) == (OrphanKind.ATTEMPT, Fate.LEAVE)
    assert f"{record.id.segment_id}, which has the same offsets, is not proven to be right" in found.reason
    assert "tiersnap mend --depth full" in found.reason


@pytest.mark.parametrize("is_known_long", [True, False])
def test_a_manifest_does_not_outweigh_the_log_beside_it(store, tmp_path, is_known_long):
    """A digit of an end offset is wrong: of the copy that may go, or of the one that holds its offsets."""
    layout = AivenLayout()
    tier_of_two_replicas(store, layout, tmp_path)
    shorter = next(each for each in brokers_copies(store, layout, tmp_path / "logs") if each.start_offset == 0)
    longer = next(each for each in finished(store, layout) if each.end_offset == 9)
    kept, wrong, digits = (longer, longer, (9, 4)) if not is_known_long else (longer, shorter, (4, 9))
    manifest = keys.segment(KeyKind.RSM_MANIFEST, wrong)
    told, lie = (f'"endOffset":{end}'.encode() for end in digits)
    assert told in store.get(manifest)
    store.replace(manifest, store.get(manifest).replace(told, lie))
    make_old(store)
    assert keys_of(store, kept.id.segment_id).isdisjoint(removable(orphans(store, known(published(shorter)))))


REFUSALS = {
    "another cluster": ({"cluster_id": "AnotherClusterAnother_"}, "comes from the cluster"),
    "metadata begins later": ({"metadata_start": 7}, "begins at offset 7"),
    "no snapshot or state is known": ({"records": {}, "log_start": 99}, "to publish them: tiersnap publish"),
    "nor is the topic": ({"records": {}, "log_start": None}, "remove the segments by hand"),
    "topic is hidden": ({"log_start": None}, "this user may lack DESCRIBE"),
    "no leader": ({"has_leader": False}, "no leader"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_partition_is_refused_as_a_whole_where_the_records_do_not_say_all(store, layout, tmp_path, case):
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    first, second, _ = finished(store, layout)
    changes, reason = REFUSALS[case]
    found = orphans(store, known(first, replace(second, state=DELETED), **changes))
    assert removable(found) == set()
    (refused,) = [each for each in found if each.action is Fate.REFUSE]
    assert reason in refused.reason
    assert list(remove(store, found)) == []


def test_a_partition_of_which_nobody_says_the_cluster_is_refused(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    store.delete([keys.cluster(PARTITION)])
    everything = [replace(each, state=DELETED) for each in finished(store, layout)]
    (refused,) = orphans(store, known(*everything))
    assert refused.action is Fate.REFUSE


def test_snapshots_below_the_log_start_go_and_their_manifests_with_the_last_of_them(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    put_snapshots(store, [5, 10], run_id="run-1")
    put_snapshots(store, [15], run_id="run-2")
    make_old(store)
    published = finished(store, layout)
    assert orphans(store, known(*published)) == []
    first = removable(orphans(store, known(*published, log_start=10)))
    assert first == {keys.snapshot(PARTITION, 5)}
    both = removable(orphans(store, known(*published, log_start=11)))
    assert both == {
        keys.snapshot(PARTITION, 5),
        keys.snapshot(PARTITION, 10),
        keys.snapshot_manifest(PARTITION, "run-1"),
    }


def test_a_snapshot_of_which_no_manifest_tells_is_named_only(store, tmp_path):
    tier_ours(store, AivenLayout(), tmp_path / "logs")
    store.put_if_absent(keys.snapshot(PARTITION, 3), b"somebody's")
    make_old(store)
    (found,) = orphans(store, known(*finished(store, AivenLayout()), log_start=5))
    assert (found.kind, found.action) == (OrphanKind.SNAPSHOT, Fate.LEAVE)


def of_a_deleted_topic(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    put_snapshots(store, [5, 10, 15])
    store.put_if_absent(keys.manifests(PARTITION), b"{}")
    theirs = brokers_copies(store, layout, tmp_path / "logs")
    store.delete(keys_of(store, *(each.id.segment_id for each in theirs)))
    make_old(store)
    return known(*(replace(each, state=DELETED) for each in theirs), log_start=None)


def test_of_a_deleted_topic_all_that_is_ours_goes(store, layout, tmp_path):
    told = of_a_deleted_topic(store, layout, tmp_path)
    for _, failures in remove(store, orphans(store, told)):
        assert not failures
    assert list(store.list()) == []


def test_of_a_deleted_topic_an_object_of_another_name_stays(store, layout, tmp_path):
    told = of_a_deleted_topic(store, layout, tmp_path)
    other = f"{keys.partition_claims(PARTITION)}expire.json"
    store.put_if_absent(other, b"{")
    make_old(store)
    list(remove(store, orphans(store, told)))
    assert [info.key for info in store.list()] == [other]


def test_of_a_deleted_topic_claims_stay_as_long_as_anything_lies_beside_them(store, layout, tmp_path):
    told = of_a_deleted_topic(store, layout, tmp_path)
    (theirs, *_) = brokers_copies(store, layout, tmp_path / "logs")
    kept = keys_of(store, theirs.id.segment_id)
    list(remove(store, orphans(store, told)))
    left = {info.key for info in store.list()}
    assert kept <= left
    assert keys.cluster(PARTITION) in left


def test_a_removal_that_is_killed_anywhere_is_finished_by_the_next_one(store, tmp_path):
    layout = AivenLayout()
    told = of_a_deleted_topic(store, layout, tmp_path)
    kills = 0
    while True:
        flaky = FlakyStore(store, {1 + kills % 3: Fault.CRASH_AFTER}, counted={"delete"})
        found = orphans(store, told)
        try:
            list(remove(flaky, found))
        except Crash:
            kills += 1
            visible = [info.key for info in store.list() if info.key.endswith(".rsm-manifest")]
            for key in visible:
                assert len(keys_of(store, key.removesuffix(".rsm-manifest"))) == 3, "nothing half is visible"
            continue
        break
    assert kills > 3
    assert list(store.list()) == []


def test_claims_stay_where_a_copy_could_not_be_deleted(store, tmp_path):
    told = of_a_deleted_topic(store, AivenLayout(), tmp_path)
    flaky = FlakyStore(store, {1: Fault.FAIL_BEFORE}, counted={"delete"})
    done = list(remove(flaky, orphans(store, told)))
    assert sum(bool(failures) for _, failures in done) == 1
    assert len([orphan for orphan, _ in done if orphan.kind is OrphanKind.COPY]) > 1, "the others go"
    left = {info.key for info in store.list()}
    assert keys.cluster(PARTITION) in left
    assert any(key.startswith("claims/") for key in left)
    list(remove(store, orphans(store, told)))
    assert list(store.list()) == []


def begin_unblock(store, *, cluster_id: str = CLUSTER, partitions: tuple[int, ...] = (PARTITION.partition,)) -> str:
    before = {"remote.log.copy.disable": None}
    begun = SavedConfigs.of(cluster_id, PARTITION.topic, PARTITION.topic_id, partitions, before)
    SavedConfigsStore(store).put(begun)
    return keys.unblock(PARTITION.topic, PARTITION.topic_id)


def of_unblock(store, told) -> list[tuple[Fate, str]]:
    _, records = list_all(store, lambda _: True)
    found = list(judge_saved_configs(store, records, Aged(store.now(), DAY), lambda asked: dict.fromkeys(asked, told)))
    list(remove(store, found))
    return [(each.action, each.reason) for each in found]


def test_what_unblock_had_to_put_back_goes_once_the_topic_was_deleted_and_never_before(store, tmp_path):
    told = of_a_deleted_topic(store, AivenLayout(), tmp_path)
    key = begin_unblock(store)
    assert of_unblock(store, told) == [], "young"
    make_old(store)
    assert of_unblock(store, replace(told, log_start=0)) == [], "its topic lives"
    copied = {name: replace(each, state=SegmentState.COPY_SEGMENT_FINISHED) for name, each in told.records.items()}
    for doubtful, reason in (
        (replace(told, records={}), "has no records"),
        (replace(told, records=copied), "this user may lack DESCRIBE"),
        (replace(told, metadata_start=7), "begins at offset 7"),
        (replace(told, cluster_id="AnotherClusterAnother_"), "comes from the cluster"),
    ):
        ((action, said),) = of_unblock(store, doubtful)
        assert action is Fate.REFUSE
        assert reason in said
    assert store.head(key) is not None
    assert of_unblock(store, told) == [(Fate.REMOVE, "the topic was deleted")]
    assert store.head(key) is None


def test_a_record_of_unblock_that_says_too_little_is_left_and_named(store, tmp_path):
    told = of_a_deleted_topic(store, AivenLayout(), tmp_path)
    key = begin_unblock(store, partitions=())
    make_old(store)
    assert of_unblock(store, told) == [(Fate.REFUSE, "the file names no partition")]
    store.replace(key, b"{}")
    make_old(store)
    ((action, said),) = of_unblock(store, told)
    assert (action, "not saved configs of a topic" in said) == (Fate.LEAVE, True)
    assert store.head(key) is not None


def test_files_that_killed_processes_left_and_old_probes_go_and_what_is_not_ours_stays(store):
    folder = store.root / UNFINISHED
    folder.mkdir(parents=True)
    ours, young, theirs = f"tiersnap-{'a' * 32}.log", f"tiersnap-{'b' * 32}.log", "notes.txt"
    for name in (ours, young, theirs):
        (folder / name).write_text("x")
    probes = [f"{PROBES}{digit * 32}" for digit in "ab"]
    for key in probes:
        store.put_if_absent(key, b"?")
    for key in (f"{UNFINISHED}/{ours}", f"{UNFINISHED}/{theirs}", probes[0]):
        age(store, key, 2 * DAY)
    found = list(unfinished(store, Aged(store.now(), DAY), CLUSTER, lambda _: True))
    kinds = [OrphanKind.FILE, OrphanKind.PROBE]
    assert sorted(each.kind for each in found if each.action is Fate.REMOVE) == kinds
    assert sorted(each.kind for each in found if each.action is Fate.WAIT) == kinds
    list(remove(store, found))
    assert sorted(path.name for path in folder.iterdir() if path.name != "lock") == [theirs, young]
    assert [info.key for info in store.list()] == probes[1:]


class WithUploads:
    """A store with these multipart uploads under way."""

    def __init__(self, store, *uploads):
        self._store, self._uploads = store, uploads

    def __getattr__(self, name):
        return getattr(self._store, name)

    def unfinished_uploads(self, prefix=""):
        return iter(self._uploads)


SEGMENT_KEY = f"{keys.partition_segments(PARTITION, local=False)}{5:020d}-{'A' * 21}Q.log"


@pytest.mark.parametrize(
    ("upload", "found"),
    [
        (UnfinishedUpload("x", "1", 0, DAY, is_ours=True), [(OrphanKind.FILE, Fate.WAIT)]),
        (UnfinishedUpload("x", "1", 0, DAY + 1, is_ours=True), [(OrphanKind.FILE, Fate.REMOVE)]),
        (UnfinishedUpload(SEGMENT_KEY, "1", 0, DAY), []),
        (UnfinishedUpload(SEGMENT_KEY, "1", 0, DAY + 1), [(OrphanKind.UPLOAD, Fate.LEAVE)]),
        (UnfinishedUpload("of somebody", "1", 0, DAY + 1), []),
        (UnfinishedUpload(keys.manifests(PARTITION), "1", 0, DAY + 1), []),
        (UnfinishedUpload(keys.snapshot(PARTITION, 5), "1", 0, DAY + 1), []),
    ],
)
def test_unfinished_names_uploads_when_older_than_the_grace(store, upload, found):
    uploads, aged = WithUploads(store, upload), Aged(10 * DAY, DAY)
    told = list(unfinished(uploads, aged, CLUSTER, lambda topic: topic == PARTITION.topic))
    assert [(each.kind, each.action, each.size_bytes, each.upload) for each in told] == [
        (*each, 0, upload) for each in found
    ]
    nobody = unfinished(uploads, aged, CLUSTER, lambda topic: False)
    assert [each.kind for each in nobody] == [kind for kind, _ in found if kind is OrphanKind.FILE]


@pytest.mark.parametrize(
    ("cluster_id", "action"),
    [(None, Fate.REMOVE), (CLUSTER, Fate.REMOVE), ("AnotherClusterAnother_", Fate.REFUSE)],
)
def test_an_upload_of_a_claimed_attempt_goes_unless_it_is_of_another_cluster(store, cluster_id, action):
    killed = new_segment_id()
    claim(store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(killed, "run-2"))
    if cluster_id is not None:
        put_cluster_id(store, PARTITION, cluster_id)
    upload = UnfinishedUpload(SEGMENT_KEY.replace("A" * 21 + "Q", killed), "1", 0, DAY + 1)
    (told,) = unfinished(WithUploads(store, upload), Aged(10 * DAY, DAY), CLUSTER, lambda _: True)
    assert (told.kind, told.action, told.segment_id) == (OrphanKind.UPLOAD, action, killed)


class Emptied(DirectoryStore):
    """A store from which another run removes manifests that were listed before they are read."""

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        if "/manifest-" in key:
            self.delete([key])
        return super().get(key, limit=limit)


def test_orphans_passes_by_a_manifest_that_is_gone_since_it_was_listed(store, tmp_path):
    tier_ours(store, AivenLayout(), tmp_path / "logs")
    put_snapshots(store, [5, 10, 15])
    make_old(store)
    found = orphans(Emptied(store.root), known(*finished(store, AivenLayout()), log_start=6))
    assert [(each.kind, each.action) for each in found] == [(OrphanKind.SNAPSHOT, Fate.LEAVE)]
