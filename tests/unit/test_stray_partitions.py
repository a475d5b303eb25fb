"""Folders that a KRaft broker set aside: named by scan and doctor with their bytes and what they mean."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log

pytestmark = pytest.mark.unit

SUFFIX = ".0123456789abcdef0123456789abcdef"
LIVE = {
    "other records": "the other folder of orders-0 on this host has different records",
    "empty": "the other folder of orders-0 on this host is empty: if no other replica has these records, only this "
    "folder has them",
    "none": "this host has no other folder of orders-0: if the topic was deleted, or another broker has the "
    "partition, delete this folder",
}


def set_aside(log_dir: Path, live: str) -> Path:
    """A broker's directory with a stray replica of orders-0, and what it has under that name now."""
    folder = write_small_log(log_dir)
    stray = folder.with_name(folder.name + SUFFIX + "-stray")
    folder.rename(stray)
    write_small_log(log_dir, "payments")
    if live == "other records":
        write_small_log(log_dir)
    elif live == "empty":
        folder.mkdir()
        for name in ("00000000000000000000.log", "00000000000000000000.index"):
            (folder / name).touch()
        shutil.copy(stray / "partition.metadata", folder)
    return stray


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("command", ["scan", "doctor"])
def test_stray_folder_is_named_with_its_bytes_and_its_meaning(tmp_path: Path, live: str, command: str) -> None:
    stray = set_aside(tmp_path, live)
    ran = tiersnap(command, tmp_path, output="table")
    text = " ".join((ran.out + ran.err).split())
    assert_said(ran, 4)
    size = sum(path.stat().st_size for path in stray.glob("*.log"))
    assert f"STRAY_PARTITION: {stray}: brokers do not read these {size} B of orders-0" in text
    assert LIVE[live] in text


def test_live_partition_on_another_disk_is_the_one_that_counts(tmp_path: Path) -> None:
    stray = set_aside(tmp_path / "one", "none")
    write_small_log(tmp_path / "two")
    ran = tiersnap("scan", tmp_path / "one", tmp_path / "two")
    assert_said(ran, 4, f"STRAY_PARTITION: {stray}", LIVE["other records"])


@pytest.mark.parametrize("state", ["stray", "delete", "future"])
def test_folder_without_records_or_of_another_state_is_no_finding(tmp_path: Path, state: str) -> None:
    write_small_log(tmp_path)
    folder = tmp_path / f"payments-0{SUFFIX}-{state}"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"" if state == "stray" else b"records")
    ran = tiersnap("scan", tmp_path)
    assert_said(ran, 0)
    assert "STRAY_PARTITION" not in ran.err
