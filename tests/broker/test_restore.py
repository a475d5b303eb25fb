"""A lost disk, restored from its tier: a real broker and real consumers find what was there before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import CLEAN_SHUTDOWN, empty_snapshot, replace_disk, segment_bases, snapshots
from tests.broker.harness.disks import CLUSTER_ID, OTHER_CLUSTER_ID, Disks, kraft_disks
from tests.broker.harness.log_batches import batches
from tests.broker.harness.process import ProcessEndedError
from tests.broker.harness.raw_protocol import describe_producers
from tests.broker.harness.reading import Record, read_all
from tests.broker.harness.scenarios import CURRENT_VERSION, LEGACY_VERSION, wait_for_tiering
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import (
    create_topic,
    create_topic_in,
    last_stable,
    log_end,
    log_start,
    topic_id,
    wait_for_leader,
)
from tests.broker.harness.two_disks import (
    CUT_PRODUCER,
    LOADS,
    NO_TRANSACTIONS,
    Lost,
    first_batches,
    keep_next_off,
)
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import segment_count, transaction_around, write_segments
from tests.broker.oracle.fold import fold_oracle
from tests.broker.oracle.java import run_java
from tests.broker.oracle.judge import entries
from tests.broker.oracle.transactions import MAIN, TOOLS_VERSION
from tests.reference.command import Ran, tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]


def restore(lost: Lost, disks: Disks, topic: str, *words: str) -> Ran:
    return tiersnap(
        "restore", "--remote", *lost.remote, "--to", disks.log_dirs[-1], "--topic", topic, "--unpublished", *words
    )


def below(records: list[Record], end: int) -> list[Record]:
    return [record for record in records if record.offset < end]


def test_up_to_the_last_tiered_boundary_a_consumer_reads_every_record_as_before(lost, tmp_path):
    topic, end = lost.topic, lost.end(lost.topic)
    disks = lost.lose_disk(tmp_path / "disks")
    plan = restore(lost, disks, topic)
    assert plan.exit_code == 0
    assert not (disks.log_dirs[1] / f"{topic}-0").exists(), "a plan writes nothing"

    done = restore(lost, disks, topic, "--apply")

    assert done.exit_code == 0, done.err
    row = done.row(partition=f"{topic}-0")
    assert (row["log_start_offset"], row["log_end_offset"], row["last_stable_offset"]) == (0, end, end)
    assert row["doubts"] == row["rebuilt_snapshots"] == row["open_transactions"] == []
    assert not (disks.log_dirs[1] / CLEAN_SHUTDOWN).exists(), "the broker is to look for itself"
    folder, before = disks.partition(topic), lost.disks.partition(topic)
    for path in before.glob("*.txnindex"):
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert snapshots(folder).keys() == {base for base in segment_bases(before) if base}
    right = fold_oracle([before], tmp_path / "oracle")[before.name]
    for offset, data in snapshots(folder).items():
        assert entries(data) == entries(right[offset])

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert (log_start(broker, topic), last_stable(broker, topic), log_end(broker, topic)) == (0, end, end)
        assert read_all(broker, topic) == below(lost.uncommitted[topic], end)
        assert read_all(broker, topic, isolation="read_committed") == below(lost.committed[topic], end)
        assert len(lost.committed[topic]) < len(lost.uncommitted[topic]), "some were aborted"
        known = {producer.producer_id for producer in describe_producers(broker, topic)}
        assert known == {batch.producer_id for batch in batches(folder) if batch.producer_id >= 0}
        epochs = (folder / "leader-epoch-checkpoint").read_text().splitlines()
        assert epochs[2:4] == [f"{epoch} {start}" for epoch, start in row["leader_epochs"]], "kept, then its own"
        write_segments(broker, topic, segment_count(folder) + 2, LOADS, name="later-")
        assert read_all(broker, topic)[: len(below(lost.uncommitted[topic], end))] == below(
            lost.uncommitted[topic], end
        )
    scanned = tiersnap("scan", disks.log_dirs[1], "--topic", topic)
    assert scanned.exit_code == 0, scanned.out


@pytest.mark.nightly
def test_without_its_transaction_indexes_from_the_tier_none_is_left_out(lost, tmp_path):
    """The manifests are made to say that there never were any, as a tier that lost them would."""
    topic, end = lost.topic, lost.end(lost.topic)
    disks = lost.lose_disk(tmp_path / "disks")
    remote = tmp_path / "remote"
    ran = tiersnap(
        *("tier", lost.disks.log_dirs[1], "--remote", remote, "--topic", topic),
        *("--expiration", "none", "--layout", "local-tiered-storage", "--apply"),
    )
    assert ran.exit_code == 0, ran.err
    gone = list(remote.rglob("*.txnindex"))
    assert gone
    for path in gone:
        path.unlink()

    done = tiersnap(
        *("restore", "--remote", remote, "--to", disks.log_dirs[1], "--topic", topic, "--unpublished", "--apply")
    )

    assert done.exit_code == 0
    (row,) = done.rows
    assert len(row["doubts"]) == len(gone)
    assert row["transaction_indexes"] == len(gone)
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert read_all(broker, topic, isolation="read_committed") == below(lost.committed[topic], end)


@pytest.mark.nightly
def test_a_log_start_inside_a_segment_is_where_consumers_begin(lost, tmp_path):
    """As after DeleteRecords; the first segment is whole, and what it has below is not shown."""
    topic, end = lost.topic, lost.end(lost.topic)
    begin = segment_bases(lost.disks.partition(topic))[2] + 7
    disks = lost.lose_disk(tmp_path / "disks")
    done = restore(lost, disks, topic, "--log-start", str(begin), "--apply")
    assert done.exit_code == 0, done.err
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert log_start(broker, topic) == begin
        assert read_all(broker, topic, start=begin) == [
            record for record in below(lost.uncommitted[topic], end) if record.offset >= begin
        ]
        assert read_all(broker, topic, start=begin, isolation="read_committed") == [
            record for record in below(lost.committed[topic], end) if record.offset >= begin
        ]


@pytest.mark.nightly
@pytest.mark.parametrize("ended_by", ["kafka-transactions abort", "its producer's next transaction"])
def test_a_transaction_cut_by_the_last_boundary_is_reported_and_ends_as_told(lost, tmp_path, ended_by):
    topic, end = lost.cut_topic, lost.end(lost.cut_topic)
    disks = lost.lose_disk(tmp_path / "disks")

    plan, done = restore(lost, disks, topic), restore(lost, disks, topic, "--apply")

    assert plan.rows[0]["open_transactions"] == done.rows[0]["open_transactions"], "known before anything is fetched"
    (cut,) = done.rows[0]["open_transactions"]
    (begun,) = (record for record in lost.committed[topic] if record.key == f"{CUT_PRODUCER}-0-0".encode())
    assert cut["first_offset"] == begun.offset == done.rows[0]["last_stable_offset"] < end
    abort = f"abort --topic {topic} --partition 0 --start-offset {begun.offset}"
    assert f"kafka-transactions.sh --bootstrap-server HOST:PORT {abort}" in done.err

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert last_stable(broker, topic) == begun.offset
        assert log_end(broker, topic) == end
        assert read_all(broker, topic) == below(lost.uncommitted[topic], end)
        assert read_all(broker, topic, isolation="read_committed") == below(lost.committed[topic], begun.offset)
        (holder,) = (each for each in describe_producers(broker, topic) if each.current_txn_start_offset >= 0)
        assert (holder.producer_id, holder.current_txn_start_offset) == (cut["producer_id"], begun.offset)

        if ended_by == "kafka-transactions abort":
            words = ["--bootstrap-server", broker.bootstrap, *abort.split()]
            run_java(TOOLS_VERSION, MAIN, words)
            expected = [record for record in below(lost.committed[topic], end) if not is_cut(record)]
        else:
            with transaction_around(broker, topic, name=CUT_PRODUCER):
                pass
            expected = below(lost.committed[topic], end)
        assert wait_until(lambda: last_stable(broker, topic) == log_end(broker, topic), "the transaction has ended")
        assert below(read_all(broker, topic, isolation="read_committed"), end) == expected


def is_cut(record: Record) -> bool:
    return (record.key or b"").startswith(f"{CUT_PRODUCER}-".encode())


@pytest.mark.nightly
def test_with_the_empty_snapshot_a_cut_transaction_is_shown_as_if_committed(lost, tmp_path):
    """One more reason why the 10 bytes are not good enough; `--producer-state empty` keeps such transactions."""
    topic, end = lost.cut_topic, lost.end(lost.cut_topic)
    disks = lost.lose_disk(tmp_path / "disks")
    (cut,) = restore(lost, disks, topic, "--producer-state", "empty", "--apply").rows[0]["open_transactions"]
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert last_stable(broker, topic) == cut["first_offset"]
    empty_snapshot(disks.partition(topic), end)
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert last_stable(broker, topic) == log_end(broker, topic) == end
        shown = read_all(broker, topic, isolation="read_committed")
    assert sum(map(is_cut, shown)) == 10, "nobody committed them"


@pytest.mark.nightly
@pytest.mark.kafka(LEGACY_VERSION)
@pytest.mark.parametrize("version", [LEGACY_VERSION, CURRENT_VERSION])
def test_no_broker_starts_over_a_restore_that_was_cut_short(version, request, copy_of, tmp_path):
    """It would begin the partition anew, empty, at offset 0."""
    if version == LEGACY_VERSION:
        disks = copy_of(request.getfixturevalue("legacy_disks"))
    else:
        disks = request.getfixturevalue("lost").lose_disk(tmp_path / "disks")
    unfinished = disks.log_dirs[-1] / f"tiersnap-restore.{'0' * 16}.{'f' * 16}"
    unfinished.mkdir()
    (unfinished / f"{0:020d}.log.part").write_bytes(b"\0" * 100)
    with pytest.raises(ProcessEndedError):
        Broker(disks, version).start()
    logs = [path.read_text(errors="replace") for path in disks.output_dir.glob(f"{version}-*.log")]
    assert any(unfinished.name in log for log in logs)
    assert unfinished.exists()


@pytest.fixture
def other_cluster(lost: Lost, tmp_path: Path) -> tuple[Disks, str]:
    """Another cluster, in which the topic was created by its name and the folder then removed; and its id there."""
    disks = kraft_disks(tmp_path / "other", CURRENT_VERSION, cluster_id=OTHER_CLUSTER_ID)
    with Broker(disks, CURRENT_VERSION) as broker:
        create_topic(broker, lost.topic)
        made = topic_id(broker, lost.topic)
    assert restore(lost, disks, lost.topic).exit_code == 4, "the folder that the broker made is in the way"
    shutil.rmtree(disks.partition(lost.topic))
    return disks, made


@pytest.mark.nightly
@pytest.mark.parametrize("state", ["empty", "keep"])
def test_in_another_cluster_producer_ids_collide_with_the_restored_ones(lost, other_cluster, state):
    disks, made = other_cluster
    topic, end = lost.topic, lost.end(lost.topic)

    refused = restore(lost, disks, topic, "--apply")
    assert refused.exit_code == 4
    assert CLUSTER_ID in refused.err
    assert "silently drop the first records" in refused.err
    half = restore(lost, disks, topic, "--apply", "--producer-state", state)
    assert half.exit_code == 4, "the topic id is another one there"
    done = restore(lost, disks, topic, "--apply", "--producer-state", state, "--as-topic-id", made)
    assert done.exit_code == 0, done.err

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        assert read_all(broker, topic) == below(lost.uncommitted[topic], end)
        assert read_all(broker, topic, isolation="read_committed") == below(lost.committed[topic], end)
        first = first_batches(broker, topic, producers=25)
        there = {record.key for record in read_all(broker, topic, start=end)}
    dropped = [key for key in first.acknowledged if key not in there]
    print(f"{state}: {len(first.refused)} producers refused, {len(dropped)} records acknowledged and dropped")
    if state == "empty":
        assert not dropped
        assert not first.refused
    else:
        assert len(dropped) >= 10, "what is refused unasked"


@pytest.mark.nightly
def test_what_a_broker_tiered_itself_is_restored_and_its_copier_goes_on_behind_it(tmp_path):
    """Tiering is on for the topic, before and after; LocalTieredStorage, which records no cluster."""
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION, data=("d1", "d2"))
    tier = LocalTier(tmp_path / "tier", metadata_partitions=1)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        assert disks.partition("__remote_log_metadata").parent == disks.log_dirs[0], "it outlives the second disk"
        topic = create_topic_in(broker, disks.log_dirs[1], "ledger")
        keep_next_off(broker, disks.log_dirs[1])
        write_segments(broker, topic, 5, LOADS)
        write_segments(broker, topic, 6, NO_TRANSACTIONS, name="end-")
        wait_for_tiering(broker, tier, topic=topic)
        uncommitted = read_all(broker, topic)
        committed = read_all(broker, topic, isolation="read_committed")
    end = segment_bases(disks.partition(topic))[-1]
    tiered = tier.complete_bases(topic)
    replace_disk(disks.log_dirs[1])
    words = ("restore", "--remote", tier.directory, "--to", disks.log_dirs[1], "--topic", topic, "--apply")
    asked = tiersnap(*words)
    assert asked.exit_code == 2
    assert "--cluster-id" in asked.err

    done = tiersnap(*words, "--cluster-id", CLUSTER_ID)

    assert done.exit_code == 0, done.err
    assert done.rows[0]["doubts"] == done.rows[0]["rebuilt_snapshots"] == []
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        wait_for_leader(broker, topic)
        assert read_all(broker, topic) == below(uncommitted, end)
        assert read_all(broker, topic, isolation="read_committed") == below(committed, end)
        folder = disks.partition(topic)
        write_segments(broker, topic, segment_count(folder) + 2, LOADS, name="later-")
        wait_until(lambda: len(tier.complete_bases(topic)) == segment_count(folder) - 1, "the new ones are tiered")
        assert tier.complete_bases(topic) == tuple(segment_bases(folder)[:-1]), "and none of the old ones again"
        assert tier.complete_bases(topic)[: len(tiered)] == tiered
