"""`tiersnap verify`: are the snapshots that are there right?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from jobs import params
from jobs.output import Output
from snapshot import snapshot_file
from snapshot.carry import Boundary
from snapshot.errors import CorruptSnapshotError, ExitCode, SourceNotFoundError
from snapshot.examine import examine
from snapshot.log_dir import LogDir, Partition, open_log_dir, read_partition
from snapshot.trust import Comparison, SnapshotVerdict


@click.command()
@click.argument("source", envvar="TIERSNAP_SOURCE")
@click.option(
    "--against",
    type=click.Path(file_okay=False, path_type=Path),
    help="Judge the files DIR/<topic>-<partition>/<20 digits>.snapshot instead of those beside the log.",
)
@params.topic_option
@params.crc_option
@params.producer_expiration_option
@params.output_option
@click.pass_obj
def verify(
    output: Output,
    source: str,
    against: Path | None,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    producer_expiration: int | None,
) -> int:
    """Compare every producer snapshot of SOURCE with the log, producer by producer.

    A file MATCHES, EXTENDS (knows producers from before the log start), is SUSPECT (contradicts the log), CORRUPT (no
    broker can read it) or UNKNOWN (the log is damaged below it). Exits 5 when one is CORRUPT, 4 when one is SUSPECT.
    With --against every file must equal the log's fold exactly.
    """
    log_dir = open_log_dir(source)
    if against is not None and not against.is_dir():
        raise SourceNotFoundError(f"{against}: no such directory", hint="tiersnap repair SOURCE --out DIR writes one")
    counts: Counter[SnapshotVerdict] = Counter()

    def rows() -> Iterator[dict[str, object]]:
        for partition in _partitions(log_dir, topic):
            found: dict[int, Comparison] = {}
            judge = None if against is None else _Exactly(against / partition.name, found)
            examination = examine(
                log_dir.filesystem,
                partition,
                check_crc=check_crc,
                producer_expiration=producer_expiration,
                on_boundary=judge,
            )
            verdicts = found if against is not None else examination.snapshots
            for offset, comparison in verdicts.items():
                if comparison.verdict is not SnapshotVerdict.MISSING:
                    counts[comparison.verdict] += 1
                    yield _row(partition.name, offset, comparison)

    columns = ("partition", "offset", "verdict", "reason")
    output.rows("verify", rows(), columns=columns)
    total = sum(counts.values())
    right = counts[SnapshotVerdict.MATCHES] + counts[SnapshotVerdict.EXTENDS]
    output.talk(f"{right} of {total} snapshots agree with the log")
    if counts[SnapshotVerdict.CORRUPT]:
        return ExitCode.DATA_CORRUPT
    return ExitCode.OK if right == total else ExitCode.GATE_REFUSED


def _partitions(log_dir: LogDir, topic: re.Pattern[str] | None) -> Iterator[Partition]:
    for folder in log_dir.folders:
        partition = read_partition(log_dir.filesystem, f"{log_dir.path}/{folder}", log_dir.checkpoints)
        if params.matches_topic(partition.topic, topic):
            yield partition


class _Exactly:
    """Compares the files of another directory with each boundary; nothing is explained away."""

    def __init__(self, folder: Path, found: dict[int, Comparison]) -> None:
        self._folder, self._found = folder, found

    def __call__(self, boundary: Boundary) -> None:
        name = snapshot_file.file_name(boundary.offset)
        path = self._folder / name
        if not path.is_file():
            return
        try:
            entries = snapshot_file.decode(path.read_bytes(), name=str(path))
        except CorruptSnapshotError as error:
            self._found[boundary.offset] = Comparison(SnapshotVerdict.CORRUPT, error.message)
            return
        equal = np.array_equal(entries, boundary.entries)
        verdict = SnapshotVerdict.MATCHES if equal else SnapshotVerdict.SUSPECT
        reason = f"equals the log: {entries.size} producers" if equal else "other entries than the log gives"
        self._found[boundary.offset] = Comparison(verdict, reason)


def _row(partition: str, offset: int, comparison: Comparison) -> dict[str, object]:
    return {
        "partition": partition,
        "offset": offset,
        "verdict": comparison.verdict,
        "reason": comparison.reason,
        "lacking": comparison.lacking,
        "differing": comparison.differing,
        "unexplained": comparison.unexplained,
        "extending": comparison.extending,
        "expired": comparison.expired,
    }
