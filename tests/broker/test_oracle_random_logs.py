"""What `tiersnap repair` computes is what Kafka's own classes fold, on real logs and on many made up ones.

The oracle merges after every batch, as a live broker does; a broker that rebuilds merges once a segment. The two differ
only where an epoch leaves its value and comes back by markers alone inside one segment: the batch from before then
survives a rebuild. tiersnap follows the live broker, and so does the oracle.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.harness.damage import snapshots
from tests.broker.oracle.fold import fold_oracle
from tests.broker.oracle.java import JavaProgramError
from tests.broker.oracle.judge import entries
from tests.reference import log_builder as lb
from tests.reference.all_logs import assemble
from tests.reference.command import assert_said, tiersnap
from tests.reference.random_log import write_random_partition
from tiersnap.snapshot.formats import snapshot_file

pytestmark = [pytest.mark.broker, pytest.mark.kafka("4.1.1")]


def assert_folds_as_kafka_does(log_dir: Path, out: Path) -> int:
    """Compare every boundary of every partition in `log_dir`; return how many there are."""
    ran = tiersnap("repair", log_dir, "--out", out / "ours", "--all", "--expiration", "none")
    assert_said(ran, 0)
    partitions = sorted(path for path in log_dir.iterdir() if path.is_dir())
    folded = fold_oracle(partitions, out / "kafkas")
    count = 0
    for partition, expected in folded.items():
        ours = snapshots(out / "ours" / partition)
        assert ours.keys() == expected.keys(), partition
        for offset, data in expected.items():
            assert entries(ours[offset]) == entries(data), f"{partition} at {offset}"
            count += 1
    return count


def test_every_boundary_of_the_bundled_logs_is_folded_as_kafka_folds_it(tmp_path):
    """Those folds are the snapshots that lie beside the logs, too."""
    bundled = assemble(tmp_path / "logs")
    assert assert_folds_as_kafka_does(tmp_path / "logs", tmp_path) >= len(bundled) == 119
    for (partition, offset), path in bundled.items():
        ours = tmp_path / "ours" / partition / f"{offset:020d}.snapshot"
        assert entries(ours.read_bytes()) == entries(path.read_bytes()), f"{partition} at {offset}"


def write_epoch_that_comes_back(log_dir: Path) -> None:
    """`back-0`: epoch 1 with a batch, then 5 and 1 again by markers, all in one segment."""
    entries_of = [
        lb.data_batch(0, 2, 7, epoch=1, base_sequence=0),
        lb.marker(2, 7, epoch=5, coordinator_epoch=0, commit=True),
        lb.marker(3, 7, epoch=1, coordinator_epoch=0, commit=True),
    ]
    lb.write_partition(log_dir, "back", 0, {0: entries_of, 4: []}, indexes=True, high_watermark=4)


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 5000), marks=pytest.mark.nightly)])
def test_many_made_up_partitions_are_folded_as_kafka_folds_them(seeds, tmp_path):
    """An epoch that comes back by markers inside one segment forgets its batch, as a live broker does."""
    log_dir = tmp_path / "log-dir"
    write_epoch_that_comes_back(log_dir)
    for seed in seeds:
        write_random_partition(log_dir, f"seed-{seed}", seed)

    assert assert_folds_as_kafka_does(log_dir, tmp_path) > 4 * len(seeds)
    (entry,) = snapshot_file.decode(snapshots(tmp_path / "ours/back-0")[4])
    assert (entry["producer_epoch"], entry["last_offset"]) == (1, -1)


@pytest.mark.parametrize(
    "opened_in", ["the same segment", pytest.param("an earlier segment", marks=pytest.mark.nightly)]
)
def test_a_log_that_kafka_refuses_to_fold_is_refused_with_the_offset(opened_in, tmp_path):
    log_dir = tmp_path / "log-dir"
    opening = lb.data_batch(0, 3, 7, 0, 0, transactional=True)
    plain = lb.data_batch(3, 2, 7, 0, 3)
    after = lb.data_batch(5, 1, 8, 0, 0)
    if opened_in == "the same segment":
        segments = {0: [opening, plain], 5: [after]}
    else:
        segments = {0: [opening], 3: [plain], 5: [after]}
    folder = lb.write_partition(log_dir, "refused", 0, segments, indexes=True, high_watermark=6)

    with pytest.raises(JavaProgramError, match="InvalidTxnStateException"):
        fold_oracle([folder], tmp_path / "kafkas")

    ran = tiersnap("repair", log_dir, "--out", tmp_path / "ours", "--all", "--expiration", "none")
    assert_said(ran, 5, "NON_TRANSACTIONAL_IN_TRANSACTION", "at offset 3")
    assert_said(tiersnap("scan", log_dir), 5, "NON_TRANSACTIONAL_IN_TRANSACTION")
