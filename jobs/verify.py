"""`tiersnap verify`: are the snapshots that are there right?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument, partition_option
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.snapshot.errors import CorruptSnapshotError, ExitCode, SourceNotFoundError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.examine import examine
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.state.carry import Boundary
from tiersnap.snapshot.state.trust import Comparison, SnapshotVerdict, compare


@click.command()
@log_dirs_argument("LOGDIR")
@click.option(
    "--against",
    type=LocalPath(file_okay=False),
    help="Judge the files DIR/<topic>-<partition>/<20 digits>.snapshot instead of those beside the log.",
)
@params.topic_option
@partition_option
@params.crc_option
@params.producer_expiration_option
@params.now_option
@click.option("--strict", is_flag=True, help="Count every entry, also those that a broker would drop on loading.")
@params.output_option
@click.pass_obj
def verify(
    output: Output,
    log_dirs: tuple[str, ...],
    against: Path | None,
    topic: re.Pattern[str] | None,
    partitions: tuple[TopicPartition, ...],
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    strict: bool,
) -> int:
    """Compare every producer snapshot with the log, producer by producer.

    LOGDIR is an entry of log.dirs; several may be given, with blanks or commas between them, or as a glob.

    A file MATCHES, EXTENDS (knows producers from before the log start), is SUSPECT (contradicts the log in what a
    broker that loads it now would keep), CORRUPT (no broker can read it) or UNVERIFIED (not compared: the log is
    damaged below it, or it may not be read). Exits 5 when one is CORRUPT or no broker can open it, 4 when one is
    SUSPECT or UNVERIFIED. With --strict every difference is SUSPECT. With --against every file there must equal the
    log's fold exactly.
    """
    opened, selection = open_log_dirs(log_dirs), Selection(topic, frozenset(partitions))
    if against is not None and not against.is_dir():
        raise SourceNotFoundError(f"{against}: no such directory", hint="tiersnap repair LOGDIR --out DIR writes one")
    at = None if strict or against is not None else (now, producer_expiration)
    counts: Counter[SnapshotVerdict] = Counter()
    findings: list[Finding] = [finding for each in opened for finding in each.log_dir.findings]
    progress = Progress(output, "verifying", count(opened, selection))

    def rows() -> Iterator[dict[str, object]]:
        for named, partition in progress.watch(selected_of(opened, selection)):
            found: dict[int, Comparison] = {}
            judge = None if against is None else _Exactly(against / partition.name, found)
            examination = examine(named.log_dir.filesystem, partition, check_crc=check_crc, on_boundary=judge)
            findings.extend(examination.findings)
            if judge is not None:
                judge.note_unreached()
            verdicts = found if against is not None else examination.snapshots
            for offset, comparison in verdicts.items():
                if comparison.strict is not SnapshotVerdict.MISSING:
                    row = {"log_dir": named.uri, **_row(partition.name, offset, comparison, at)}
                    counts[SnapshotVerdict(str(row["verdict"]))] += 1
                    yield row
        # Before anything is printed: a document says either what was found or why nothing was.
        if against is not None and not counts.total():
            raise SourceNotFoundError(
                f"{against}: no snapshot of these partitions",
                hint="files are looked for as DIR/<topic>-<partition>/<20 digits>.snapshot",
            )

    columns = ("partition", "offset", "verdict", "reason")
    where = ("log_dir",) if len(opened) > 1 else ()
    output.rows("verify", rows(), columns=(*where, *columns), findings=findings)
    total = counts.total()
    right = counts[SnapshotVerdict.MATCHES] + counts[SnapshotVerdict.EXTENDS]
    output.talk(f"{right} of {total} snapshots agree with the log")
    if counts[SnapshotVerdict.CORRUPT] or any(finding.path.endswith(".snapshot") for finding in findings):
        return ExitCode.DATA_CORRUPT
    return ExitCode.OK if right == total else ExitCode.GATE_REFUSED


class _Exactly:
    """Compares the files of another directory with each boundary; nothing is explained away."""

    def __init__(self, folder: Path, found: dict[int, Comparison]) -> None:
        self._folder, self._found = folder, found

    def __call__(self, boundary: Boundary) -> None:
        name = snapshot_file.file_name(boundary.offset)
        path = self._folder / name
        if not path.exists():
            return
        try:
            entries = snapshot_file.decode(read_regular(path), name=str(path))
        except CorruptSnapshotError as error:
            self._found[boundary.offset] = Comparison(SnapshotVerdict.CORRUPT, str(error))
            return
        except OSError as error:
            self._found[boundary.offset] = Comparison(SnapshotVerdict.UNVERIFIED, str(error))
            return
        self._found[boundary.offset] = compare(entries, boundary.entries, history_from=0)

    def note_unreached(self) -> None:
        """Files that were compared with nothing are not right for that."""
        for path in sorted(self._folder.glob("[0-9]*.snapshot")):
            if path.stem.isdecimal():
                reason = "not compared: no boundary of this log, or the log is damaged below it"
                self._found.setdefault(int(path.stem), Comparison(SnapshotVerdict.UNVERIFIED, reason))


def _row(partition: str, offset: int, comparison: Comparison, at: tuple[int, int | None] | None) -> dict[str, object]:
    """One file; `at` is (now, producer expiration), None to count every entry."""
    return {
        "partition": partition,
        "offset": offset,
        "verdict": comparison.strict if at is None else comparison.verdict(*at),
        "reason": comparison.says if at is None else comparison.reason(*at),
        "lacking": comparison.lacking,
        "differing": comparison.differing,
        "forgotten": comparison.forgotten,
        "unexplained": comparison.unexplained,
        "extending": comparison.extending,
        "harmful_until": comparison.harmful_until,
    }
