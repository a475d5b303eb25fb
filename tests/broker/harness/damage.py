"""Ways to harm the files of a stopped broker, each the one thing its name says."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.broker.harness.disks import Disks

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")


def offsets(folder: Path, suffix: str) -> list[int]:
    """Offsets in the names of a partition's files with `suffix` (`.log`, `.snapshot`, …), ascending."""
    return sorted(int(path.name.partition(".")[0]) for path in folder.glob(f"*{suffix}"))


def file_at(folder: Path, offset: int, suffix: str) -> Path:
    return folder / f"{offset:020d}{suffix}"


def segment_bases(folder: Path) -> list[int]:
    return offsets(folder, ".log")


def snapshots(folder: Path) -> dict[int, bytes]:
    """Content of every snapshot in a partition's folder by its (exclusive) offset."""
    return {offset: file_at(folder, offset, ".snapshot").read_bytes() for offset in offsets(folder, ".snapshot")}


def drop_snapshot(folder: Path, offset: int) -> None:
    file_at(folder, offset, ".snapshot").unlink()


def drop_snapshots_but_newest(folder: Path, keep: int) -> list[int]:
    """Delete all snapshots but the `keep` newest (0: all); returns the offsets that are gone."""
    gone = offsets(folder, ".snapshot")
    gone = gone[: len(gone) - keep]
    for offset in gone:
        drop_snapshot(folder, offset)
    return gone


def drop_index(folder: Path, base: int) -> None:
    """Lose the offset index of the segment at `base`: the next start recovers it and drops later snapshots."""
    file_at(folder, base, ".index").unlink()


def drop_time_index(folder: Path, base: int) -> None:
    file_at(folder, base, ".timeindex").unlink()


def corrupt_snapshot(folder: Path, offset: int) -> None:
    """Flip one bit of the last byte; the length stays and the CRC no longer holds."""
    path = file_at(folder, offset, ".snapshot")
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x10
    path.write_bytes(data)


def empty_snapshot(folder: Path, offset: int) -> None:
    """Put the valid snapshot of no producers there, as a broker does at a clean start without snapshots."""
    file_at(folder, offset, ".snapshot").write_bytes(EMPTY_SNAPSHOT)


def forget_clean_shutdown(disks: Disks) -> None:
    """Make the next start an unclean one in every log directory."""
    for log_dir in disks.log_dirs:
        (log_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)


def replace_disk(log_dir: Path) -> None:
    """Lose everything in a log directory but `meta.properties`: a new disk that was given the old directory id.

    A new id would leave its partitions without a leader until a second restart.
    """
    for path in log_dir.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "meta.properties":
            path.unlink()
