"""Partitions through the main job on Spark: the snapshots it stores, held against the readable decoder and fold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.reference.agreeing import Rows, folded_at, read_log
from tests.reference.command import tiersnap
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import open_log_dir

NO_TIERING = ("--until", "1970-01-01T00:00:00Z")
Stored = dict[str, dict[int, Rows]]


def snapshots_of_run(log_dir: Path, folder: Path, *options: str) -> Stored:
    """Topic -> offset -> entries of what `tiersnap run --all --apply` stores below `folder`."""
    remote = folder / "remote"
    places = ["--source", str(log_dir), "--remote", str(remote), "--warehouse", str(folder / "warehouse")]
    told = ["--report", str(folder / "report"), "--all", "--expiration", "none", "--apply"]
    tiersnap("run", *places, *told, *options)
    stored: Stored = {}
    for path in remote.rglob("*.snapshot"):
        key = keys.parse(str(path.relative_to(remote)))
        if key.kind is KeyKind.SNAPSHOT:
            stored.setdefault(key.partition.topic, {})[key.offset] = snapshot_file.decode(path.read_bytes()).tolist()
    return stored


def snapshots_expected(log_dir: Path) -> Stored:
    """What the readable fold says at every boundary below each partition's high watermark."""
    expected: Stored = {}
    for partition in open_log_dir(str(log_dir)).partitions():
        read = read_log(Path(partition.path))
        log_end = read[-1][1].last_offset + 1
        stable = min(partition.high_watermark or 0, log_end)
        ends = sorted({base for base in (*(base for base, _ in read[1:]), log_end) if read[0][0] < base <= stable})
        batches = [batch for _, segment in read for batch in segment.batches]
        expected[partition.topic] = {offset: rows for offset, rows, _ in folded_at(batches, ends)}
    return expected


def disagreements_of_run(log_dir: Path, folder: Path, *options: str) -> Iterator[str]:
    """What the main job stores otherwise than the readable fold says, a line a topic."""
    stored = snapshots_of_run(log_dir, folder, *options)
    for topic, expected in snapshots_expected(log_dir).items():
        ours = stored.get(topic, {})
        if ours != expected:
            yield f"{topic}: the main job at {sorted(ours)}, the readable fold at {sorted(expected)}"
