"""`snapshot.risk`: numbers of empty snapshots against simulated replicas, and the arithmetic against hand-made logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reference.random_log import NOW, write_random_partition
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.models.broker_eras import BROKER_ERAS
from tiersnap.snapshot.risk.partition_risk import RiskSettings, partition_risk
from tiersnap.snapshot.risk.survey_log import survey_log
from tiersnap.snapshot.simulate.replica import Origin, Replicas, files_of_partition, replicas, start_of
from tiersnap.snapshot.simulate.replica_state import cached_by_broker
from tiersnap.snapshot.simulate.summary import Tally
from tiersnap.snapshot.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.state.expiry import Expiry

pytestmark = pytest.mark.unit

DAY = 86_400_000


def simulated(folder: Path, at: int, expiration: int | None) -> Replicas:
    """A broker that starts from an empty snapshot at `at`."""
    log_dir = open_log_dir(str(folder))
    (partition,) = selected(log_dir, str(folder), None)
    start = start_of(partition, Origin.EMPTY, files_of_partition(log_dir.filesystem, partition), at)
    return replicas(log_dir.filesystem, partition, lambda _: start, Expiry(None, NOW), producer_expiration=expiration)


def known_less(found: Replicas) -> int:
    """Producers that both know, the replica with other values or fewer cached batches."""
    leader, replica = found.leader, found.replica
    both = np.intersect1d(leader.entries["producer_id"], replica.entries["producer_id"])
    fields = ("producer_epoch", "last_sequence", "current_txn_first_offset", "coordinator_epoch")
    count = 0
    for producer_id in both.tolist():
        mine, theirs = (state.entries[state.entries["producer_id"] == producer_id][0] for state in (leader, replica))
        depth = [
            int((state.batches[cached_by_broker(state)]["producer_id"] == producer_id).sum())
            for state in (leader, replica)
        ]
        count += any(mine[name] != theirs[name] for name in fields) or depth[0] != depth[1]
    return count


def test_an_empty_snapshot_exposes_what_a_broker_that_starts_from_it_would_not_know(tmp_path: Path) -> None:
    seen = {"lost": 0, "degraded": 0, "doubled": 0}
    for seed in range(18):
        expiration = (None, DAY, 3_000)[seed % 3]
        era = BROKER_ERAS[seed % len(BROKER_ERAS)]
        folder = tmp_path / str(seed)
        write_random_partition(folder, "random", seed)
        log_dir = open_log_dir(str(folder))
        (partition,) = selected(log_dir, str(folder), None)
        survey, _ = survey_log(log_dir.filesystem, str(folder), partition)
        risk = partition_risk(survey, RiskSettings(NOW, expiration, era=era))
        for boundary in risk.boundaries:
            found = simulated(folder, boundary.offset, expiration)
            tally = Tally(era)
            tally.add(what_if(found.leader, found.replica, (era,), Circumstances(partition.log_start_offset)))
            exposure = boundary.exposure
            assert (seed, boundary.offset, exposure.lost) == (seed, boundary.offset, tally.unknown)
            assert (seed, boundary.offset, exposure.doubled) == (seed, boundary.offset, tally.doubled)
            assert (seed, boundary.offset, exposure.degraded) == (seed, boundary.offset, known_less(found))
            for name in seen:
                seen[name] += getattr(exposure, name)
    assert all(seen.values()), seen
