"""The producer snapshots of any log, made by Kafka's own ProducerStateManager (FoldOracle.java)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.broker.harness.damage import snapshots
from tests.broker.oracle.java import compiled, run_java

SOURCE = Path(__file__).with_name("FoldOracle.java")
VERSION = "4.1.1"  # whose fold made tests/data/*/expected


def fold_oracle(partitions: Iterable[Path], out: Path) -> dict[str, dict[int, bytes]]:
    """Snapshot bytes of every partition folder (`<topic>-<partition>`), by folder name and exclusive offset.

    One at each segment boundary and one at the log end (none at offset 0), folded batch by batch from the first segment
    without expiry. The files are written below `out`, which must not hold any yet. Entries come in the order of
    Kafka's map: compare them as sets. One JVM start (about half a second) however many partitions.

    Raises:
        JavaProgramError: Kafka refuses a batch, as it would when the log is opened.
    """
    folders = list(partitions)
    run_java(VERSION, "FoldOracle", [str(out), *map(str, folders)], classes=compiled(SOURCE, VERSION))
    return {folder.name: snapshots(out / folder.name) for folder in folders}
