"""`tiersnap repair` on the logs of real brokers, against the snapshots that Kafka's own classes fold from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import tree
from tests.reference.untouched import as_written
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"
BOUNDARIES = {"kafka-2.7.2": 46, "kafka-3.9.1": 36, "kafka-4.1.1": 20, "ledger-2.7.2": 17}
NOW = ("--now", "2026-11-21T13:00:00Z")  # when the brokers had just stopped: nothing is excused by its age


def entries(data: bytes) -> list[tuple[int, ...]]:
    """In ascending producer id: the order in a broker's file is that of a hash map."""
    return [tuple(entry) for entry in snapshot_file.decode(data).tolist()]


@pytest.mark.parametrize("name", BOUNDARIES)
def test_every_boundary_equals_what_kafka_folds(name, tmp_path):
    ran = tiersnap("repair", DATA / name / "logs", "--out", tmp_path, "--all", "--expiration", "none")

    assert_said(ran, 0)
    written, expected = tree(tmp_path), tree(DATA / name / "expected")
    assert len(expected) == BOUNDARIES[name]
    assert written.keys() == expected.keys()
    assert {path: entries(data) for path, data in written.items()} == {
        path: entries(data) for path, data in expected.items()
    }
    before = as_written(tmp_path.rglob("*"))
    again = tiersnap("repair", DATA / name / "logs", "--out", tmp_path, "--all", "--expiration", "none")
    assert_said(again, 0)
    assert as_written(tmp_path.rglob("*")) == before


def test_all_the_boundaries_there_are():
    assert sum(BOUNDARIES.values()) == 119
    assert sorted(BOUNDARIES) == sorted(path.parent.name for path in DATA.glob("*/logs"))


@pytest.mark.parametrize("name", BOUNDARIES)
def test_every_snapshot_that_a_broker_left_is_trusted(name):
    ran = tiersnap("scan", DATA / name / "logs", *NOW)
    assert {verdict for row in ran.rows for verdict in row["snapshots"]} <= {"MATCHES", "EXTENDS", "MISSING"}
    assert not any(row["findings"] for row in ran.rows)


@pytest.mark.parametrize("name", BOUNDARIES)
def test_mended_in_place_nothing_is_missing_and_nothing_that_was_there_has_changed(name, tmp_path):
    log_dir = shutil.copytree(DATA / name / "logs", tmp_path / "logs")
    before = tree(log_dir)

    ran = tiersnap("repair", log_dir, "--apply", *NOW)

    assert_said(ran, 0)
    after = tree(log_dir)
    assert {path: after[path] for path in before} == before
    assert all(path.endswith(".snapshot") for path in after.keys() - before.keys())
    scan = tiersnap("scan", log_dir, *NOW)
    # Topics of a broker before 2.8 have no id: their segments wait for one.
    assert_said(scan, 4 if name.endswith("2.7.2") else 0)
    assert not any("MISSING" in row["snapshots"] for row in scan.rows)
    expected = tree(DATA / name / "expected")
    for path in after.keys() - before.keys():
        assert entries(after[path]) == entries(expected[path])
    assert_said(tiersnap("repair", log_dir, "--apply", *NOW), 0, "nothing to write")
    assert tree(log_dir) == after
