"""A log that was trimmed into the middle of a batch, and files for a broker that is another user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.recovered import DATA

pytestmark = pytest.mark.unit

LOGS = DATA / "kafka-3.9.1" / "logs"
NOW = ("--now", "2026-11-21T12:45:00Z")


def tiered(topic: str, tmp_path: Path) -> Path:
    ran = tiersnap("tier", LOGS, "--remote", tmp_path / "remote", "--topic", topic, "--apply", *NOW)
    assert ran.exit_code == 0, ran.err
    return tmp_path / "remote"


def disk(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    shutil.copy(LOGS / "meta.properties", tmp_path / "disk")
    return tmp_path / "disk"


def restore(remote: Path, target: Path, topic: str, *words: str):
    return tiersnap("restore", "--remote", remote, "--to", target, "--topic", topic, "--unpublished", "--apply", *words)


def test_a_log_that_was_trimmed_inside_a_batch_comes_back_as_it_was(tmp_path: Path) -> None:
    target = disk(tmp_path)
    ran = restore(tiered("trimmed", tmp_path), target, "trimmed")
    assert ran.exit_code == 0, ran.err
    for name in ("00000000000000000000.log", "00000000000000000282.log", "leader-epoch-checkpoint"):
        assert (target / "trimmed-0" / name).read_bytes() == (LOGS / "trimmed-0" / name).read_bytes()
    assert (target / "log-start-offset-checkpoint").read_text() == "0\n1\ntrimmed 0 270\n"


def test_what_lies_before_the_moved_log_start_may_be_of_an_older_leader_epoch(tmp_path: Path) -> None:
    segments = {
        0: [data_batch(0, 10, 1, 0, 0), data_batch(10, 10, 1, 0, 10, leader_epoch=1)],
        20: [data_batch(20, 10, 1, 0, 20, leader_epoch=1)],
    }
    epochs = [(1, 12)]
    write_partition(
        tmp_path / "logs",
        "old",
        0,
        segments,
        high_watermark=30,
        log_start_offset=12,
        leader_epochs=epochs,
        indexes=True,
    )
    words = ("--remote", tmp_path / "remote", "--now", "2023-11-15T00:00:00Z", "--apply")
    ran = tiersnap("tier", tmp_path / "logs", *words)
    assert ran.exit_code == 0, ran.err
    target = disk(tmp_path)
    words = ("--cluster-id", "8ocGbyB_RSCBc6V9xA_tOw")
    ran = restore(tmp_path / "remote", target, "old", *words)
    assert ran.exit_code == 0, ran.err
    name = f"{0:020d}.log"
    assert (target / "old-0" / name).read_bytes() == (tmp_path / "logs" / "old-0" / name).read_bytes()
    assert (target / "log-start-offset-checkpoint").read_text() == "0\n1\nold 0 12\n"


def test_an_end_inside_a_batch_is_refused_with_an_end_that_is_possible(tmp_path: Path) -> None:
    remote = tiered("orders", tmp_path)
    refused = restore(remote, disk(tmp_path), "orders", "--partition", "orders-0", "--until", "2")
    assert_said(
        refused,
        5,
        "the batch at offset 0 crosses the start or end of the offsets [0, 2)",
        "between two batches: --until 7",
    )
    assert restore(remote, tmp_path / "disk", "orders", "--partition", "orders-0", "--until", "7").exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("is_mount_of_root", [False, True])
def test_files_are_the_broker_s_whoever_laid_meta_properties(tmp_path: Path, is_mount_of_root: bool) -> None:
    target = disk(tmp_path)
    os.chown(target / "meta.properties" if is_mount_of_root else target, 12345, 23456)
    assert restore(tiered("trimmed", tmp_path), target, "trimmed").exit_code == 0
    found = [target / "trimmed-0", *(target / "trimmed-0").iterdir()]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in found} == {(12345, 23456)}
