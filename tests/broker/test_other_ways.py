"""Other ways in which a log directory comes to lack snapshots, and what may not be done to it meanwhile."""

from __future__ import annotations

import itertools
import shutil

import pytest

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import file_at, segment_bases, snapshots
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.mended import assert_tiers_all_right
from tests.broker.harness.scenarios import CURRENT_VERSION, NO_SNAPSHOT, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import SEGMENT_BYTES, alter_topic, create_topic, delete_records, wait_for_leader
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.broker.oracle.fold import fold_oracle
from tests.broker.oracle.judge import entries
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka("4.1.1", CURRENT_VERSION)]

PARTITION = f"{TOPIC}-0"
PREALLOCATED_INDEX = 10 * 1024 * 1024


def test_a_running_broker_s_directory_is_read_only_and_mended_once_the_broker_was_killed(tmp_path):
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION) as broker:
        create_topic(broker, TOPIC, configs={"preallocate": "true"})
        write_segments(broker, TOPIC, 8)
    folder = disks.partition(TOPIC)
    gone = damage.drop_snapshots_but_newest(folder, 3)

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        write_segments(broker, TOPIC, 11, name="later-")
        before = snapshots(folder)
        scan = tiersnap("scan", disks.log_dir)
        assert (scan.exit_code, scan.row(partition=PARTITION)["snapshots"]["MISSING"]) == (4, len(gone))
        assert tiersnap("repair", disks.log_dir).exit_code == 0
        refused = tiersnap("repair", disks.log_dir, "--apply")
        assert (refused.exit_code, "a broker is running" in refused.err) == (2, True)
        assert snapshots(folder) == before
        broker.kill()
        newest = segment_bases(folder)[-1]
        assert file_at(folder, newest, ".index").stat().st_size == PREALLOCATED_INDEX
        assert file_at(folder, newest, ".log").stat().st_size == SEGMENT_BYTES, "preallocated too, zeros at the end"

        assert tiersnap("repair", disks.log_dir, "--apply").exit_code == 0

        assert snapshots(folder).keys() == before.keys() | set(gone)
        scan = tiersnap("scan", disks.log_dir)
        assert (scan.exit_code, scan.row(partition=PARTITION)["findings"]) == (0, 0)
    assert_tiers_all_right(disks, tmp_path)


def test_a_log_whose_start_was_moved_is_mended_from_there_on(current_disks, copy_of, tmp_path):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        delete_records(broker, TOPIC, bases[4] + 7)
    assert segment_bases(folder) == bases, "the broker has not come to remove them"
    assert tiersnap("scan", disks.log_dir).exit_code == 0
    damage.drop_snapshots_but_newest(folder, 3)
    kept = snapshots(folder)
    live = shutil.copytree(folder, tmp_path / "live" / folder.name)
    for base in bases[:4]:
        file_at(live, base, ".log").unlink()
    folded = fold_oracle([live], tmp_path / "oracle")[folder.name]

    repair = tiersnap("repair", disks.log_dir, "--apply")

    assert repair.exit_code == 0
    assert [row["offset"] for row in repair.rows] == bases[5:9]
    assert {row["provenance"] for row in repair.rows} == {"COMPUTED_FROM_LOG_START"}
    assert tiersnap("scan", disks.log_dir).exit_code == 0
    tier = LocalTier(tmp_path / "tier")
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        wait_for_leader(broker, TOPIC)
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        wait_until(lambda: tier.complete_bases(TOPIC)[-1:] == (bases[-2],), "the last closed segment is tiered")
        assert broker.log.count(NO_SNAPSHOT) == 0
    tiered = {segment.base_offset: segment.files[".snapshot"].read_bytes() for segment in tier.segments(TOPIC)}
    assert list(tiered) == bases[4:-1], "none below the log start"
    for base, following in itertools.pairwise(bases[4:]):
        assert entries(tiered[base]) == entries(kept.get(following) or folded[following])
