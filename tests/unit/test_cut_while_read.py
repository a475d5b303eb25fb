"""A segment that a follower truncates while it is read is a finding; the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.log_builder import data_batch
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.log.windows import MappedWindows

pytestmark = pytest.mark.unit

BATCHES = 40_000
READ_AND_CUT = """
import os, shutil, sys
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.segment_scan import SegmentScan
for end in (int(sys.argv[2]), None):
    for left in (0, 100, 1_000_000):
        for check in (True, False):
            path = f"{sys.argv[1]}-{end}-{left}-{check}"
            shutil.copy(sys.argv[1], path)
            scan = SegmentScan(LOCAL, path, base_offset=0, next_base_offset=end, check_crc=check)
            count = 0
            for rows in scan:
                count += rows.size
                os.truncate(path, left)
            print(end, left, count, scan.end.finding, sep="|")
"""


def write_segment(folder: Path) -> Path:
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"".join(data_batch(offset, 1) for offset in range(BATCHES)))
    return path


def test_a_segment_cut_while_it_is_read_ends_the_scan_and_not_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", READ_AND_CUT, str(write_segment(tmp_path)), str(BATCHES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert len(lines) == 12
    for end, left, count, finding in lines:
        assert int(count) < BATCHES
        if end == "None":
            # The active segment is read as far as it goes.
            assert "UNREADABLE_FILE" not in finding
        else:
            assert finding.startswith("UNREADABLE_FILE"), finding
            assert f"to {left} while tiersnap read it" in finding


def test_a_small_segment_that_was_cut_while_it_was_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(data_batch(offset, 1) for offset in range(10)))
    for end, is_found in ((10, True), (None, False)):
        scan = SegmentScan(LOCAL, str(path), base_offset=0, next_base_offset=end)
        for rows in scan:
            assert rows.size
            os.truncate(path, path.stat().st_size - 1)
        assert (scan.end.finding is not None) == is_found, "the active segment is read as far as it goes"
        if scan.end.finding is not None:
            assert scan.end.finding.finding_kind is FindingKind.UNREADABLE_FILE
            assert "while tiersnap read it" in scan.end.finding.message
            path.write_bytes(b"".join(data_batch(offset, 1) for offset in range(10)))


def test_a_bus_error_that_is_none_of_ours_still_kills_the_process(tmp_path: Path) -> None:
    path = write_segment(tmp_path)
    command = f"""
import mmap, os
from tiersnap.snapshot.log.windows import MappedWindows
windows = MappedWindows({str(path)!r})
windows.read(0, 100)
with open({str(path)!r} + ".other", "w+b") as file:
    file.write(bytes(8192))
    file.flush()
    other = mmap.mmap(file.fileno(), 8192)
    os.truncate(file.name, 0)
    print(other[0])
"""
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, timeout=60, check=False)
    assert done.returncode == -7
    assert done.stdout == b""


def test_a_segment_that_is_left_alone_is_read_whole_after_another_was_cut(tmp_path: Path) -> None:
    cut = MappedWindows(str(write_segment(tmp_path)))
    (tmp_path / "other").mkdir()
    whole = write_segment(tmp_path / "other")
    with (tmp_path / f"{0:020d}.log").open("r+b") as file:
        file.truncate(0)
    assert not cut.read(0, 1 << 20).any()
    with pytest.raises(OSError, match="while tiersnap read it"):
        cut.close()
    scan = SegmentScan(LOCAL, str(whole), base_offset=0, next_base_offset=BATCHES)
    assert sum(rows.size for rows in scan) == BATCHES
    assert scan.end.finding is None


@pytest.mark.parametrize("other", ["fifo", "folder", "link", "device"])
def test_what_is_no_segment_file_is_not_read_as_one(tmp_path: Path, other: str) -> None:

    path, folder = tmp_path / f"{0:020d}.log", tmp_path / "elsewhere"
    folder.mkdir()
    if other == "fifo":
        os.mkfifo(path)
    elif other == "folder":
        path.mkdir()
    else:
        target = Path("/dev/zero") if other == "device" else write_segment(folder)
        path.symlink_to(target)
    for end in (10, None):
        scan = SegmentScan(LOCAL, str(path), base_offset=0, next_base_offset=end)
        assert list(scan) == []
        assert scan.end.finding is not None
        assert scan.end.finding.finding_kind is FindingKind.UNREADABLE_FILE
