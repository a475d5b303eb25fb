"""A partition whose copier is stuck, freed while its broker runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from jobs.cli import run as tiersnap
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, NO_SNAPSHOT, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, wait_for_leader
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]


def options(broker: Broker, tmp_path: Path) -> list[str]:
    assert broker.tier is not None
    return [
        *("--bootstrap-server", broker.bootstrap, "--source", str(broker.disks.log_dir)),
        *("--remote", str(broker.tier.directory), "--layout", "local-tiered-storage"),
        *("--warehouse", str(tmp_path / "warehouse"), "--engine", "local"),
    ]


def digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Modification time and content of every file."""
    return {
        path.name: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in folder.iterdir()
    }


def unblock(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[dict]]:
    """Exit code and rows."""
    capsys.readouterr()
    code = tiersnap(["--output", "json", "unblock", *options(broker, tmp_path), *more])
    said = capsys.readouterr()
    result = json.loads(said.out)["result"]
    assert result is not None, said.err
    return code, result["rows"]


def test_a_partition_stuck_at_its_fifth_segment_is_freed_and_no_file_of_it_is_touched(
    current_disks, copy_of, tmp_path, capsys
):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    drop_snapshot(folder, bases[5])
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        wait_for_leader(broker, TOPIC)
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        wait_until(lambda: broker.log.count(NO_SNAPSHOT) >= 2, "the copier fails", seconds=30)
        assert tier.complete_bases(TOPIC) == tuple(bases[:4])
        before = digests(folder)

        code, rows = unblock(broker, tmp_path, capsys)
        assert (code, [row["outcome"] for row in rows]) == (0, ["PLANNED"]), rows
        assert (rows[0]["remote_ends_at"], rows[0]["tier"]) == (bases[4], 6)
        assert tier.complete_bases(TOPIC) == tuple(bases[:4]), "a plan writes nothing"

        code, rows = unblock(broker, tmp_path, capsys, "--apply")
        failures = broker.log.count(NO_SNAPSHOT)
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows
        assert tier.complete_bases(TOPIC) == tuple(bases[:10]), "ten of ten, none twice"
        assert digests(folder) == before

        write_segments(broker, TOPIC, 13, name="later-")
        after = segment_bases(folder)
        wait_until(lambda: len(tier.complete_bases(TOPIC)) >= 12, "the copier goes on", seconds=30)
        assert tier.complete_bases(TOPIC) == tuple(after[:-1]), "none twice"
        assert broker.log.count(NO_SNAPSHOT) == failures
        assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 12

        assert unblock(broker, tmp_path, capsys, "--apply") == (0, [])
