"""Several threads give the folds of one thread, in its order, also beside damage; an interrupt ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Event, get_ident

import pytest

from tests.reference.log_builder import data_batch, write_partition
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, selected_of
from tiersnap.snapshot.replay.folds_ahead import FoldsAhead
from tiersnap.snapshot.replay.partition_replay import cut_offsets, inside
from tiersnap.snapshot.replay.segment_runs import FoldedSegment, FoldSegment, fold_segment

pytestmark = pytest.mark.unit

BUNDLED = Path(__file__).parent.parent / "data"
BATCHES = 40_000  # 2.8 MB: a segment that is mapped
Told = list[tuple[int, int, bytes]]


class MeetingEvent(Event):
    """Keeps each of two threads, at its first question, until the other one asks; broken if there is but one."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = Barrier(2)
        self.met: set[int] = set()

    def is_set(self) -> bool:
        if get_ident() not in self.met:
            self.met.add(get_ident())
            self.barrier.wait(timeout=60)
            self.when_met()
        return False

    def when_met(self) -> None:
        """Do nothing more."""


class CuttingEvent(MeetingEvent):
    """Truncates files that two threads have mapped and not read."""

    def __init__(self, *files: str) -> None:
        super().__init__()
        self.files = files

    def when_met(self) -> None:
        for each in self.files:
            os.truncate(each, 5000)


def listed(log_dir: Path) -> list[tuple[NamedLogDir, Partition]]:
    named = NamedLogDir(str(log_dir), open_log_dir(str(log_dir)))
    return list(selected_of([named], Selection()))


def told(folded: FoldedSegment) -> tuple[Told, object]:
    runs, end = folded
    return [(run.start_offset, run.max_timestamp, run.deltas.tobytes()) for run in runs], end


def fold_all(partition: Partition, fold: FoldSegment, *, step: int = 1) -> Iterator[tuple[Told, object]]:
    """Fold every segment, or each second one as a replay that starts behind does."""
    offsets = cut_offsets(partition)
    for segment in partition.segments[::step]:
        yield told(fold(LOCAL, segment, cuts=inside(offsets, segment), check_crc=True))


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("logs", ["ledger-2.7.2", "kafka-3.9.1"])
def test_folds_ahead_gives_the_folds_of_one_thread(logs: str, step: int) -> None:
    partitions = listed(BUNDLED / logs / "logs")
    alone = [list(fold_all(partition, fold_segment, step=step)) for _, partition in partitions]
    with FoldsAhead(threads=3) as folds:
        ahead = [list(fold_all(partition, folds, step=step)) for _, partition in folds.listed(partitions)]
    assert ahead == alone
    assert sum(map(len, alone)) > len(partitions) > 1


def test_folds_ahead_folds_two_segments_at_once(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders", 0, {base: [data_batch(base, 1, 7, 0, base)] for base in (0, 1)})
    ((_, partition),) = listed(tmp_path)
    with FoldsAhead(threads=2) as folds:
        folds._stop = meeting = MeetingEvent()
        folds.expect(LOCAL, partition)
        assert len(list(fold_all(partition, folds))) == 2
    assert len(meeting.met) == 2


def test_folds_ahead_reports_segments_that_are_cut_while_two_threads_read_them(tmp_path: Path) -> None:
    write_partition(
        tmp_path,
        "orders",
        0,
        {base: [data_batch(base + at, 1) for at in range(BATCHES)] for base in (0, BATCHES)}
        | {2 * BATCHES: [data_batch(2 * BATCHES, 1)]},
    )
    ((_, partition),) = listed(tmp_path)
    with FoldsAhead(threads=2) as folds:
        folds._stop = CuttingEvent(*(each.log.path for each in partition.segments[:2]))
        folds.expect(LOCAL, partition)
        ends = [
            folds(LOCAL, each, cuts=inside(cut_offsets(partition), each), check_crc=True)[1]
            for each in partition.segments
        ]
    kinds = [None if end.finding is None else end.finding.finding_kind for end in ends]
    assert kinds == [FindingKind.UNREADABLE_FILE, FindingKind.UNREADABLE_FILE, None]


def test_listed_raises_the_error_of_a_listing_behind_what_was_listed() -> None:
    partitions = listed(BUNDLED / "kafka-3.9.1" / "logs")

    def ends_with_an_error() -> Iterator[tuple[NamedLogDir, Partition]]:
        yield from partitions
        raise UsageError("no partition")

    found = []
    with FoldsAhead(threads=64) as folds, pytest.raises(UsageError):
        for each in folds.listed(ends_with_an_error()):
            found.append(each)
    assert found == partitions


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_scan_that_is_interrupted_leaves_no_thread_and_no_traceback(
    tmp_path: Path, number: signal.Signals, code: ExitCode
) -> None:
    for partition in range(400):
        write_partition(tmp_path, "orders-of-a-topic", partition, {0: [data_batch(0, 1)], 1: [data_batch(1, 1)]})
    command = [sys.executable, "-c", "from tiersnap.jobs.main import main; main()"]
    # Nobody reads the rows behind the first, so the pipe is full and the command waits.
    running = subprocess.Popen(
        [*command, "scan", str(tmp_path), "--segments", "--output", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline()
    running.send_signal(number)
    _, said = running.communicate(timeout=120)
    assert running.returncode == code
    assert "Traceback" not in said
