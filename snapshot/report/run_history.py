"""The earlier runs in a report's folder: their index, the states of their partitions, and the changes after them.

runs.json is a RunIndex. Its first run is the oldest.
"""

from __future__ import annotations

import gzip
import logging
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.report.changes import Changes, States, compare_states, states_of, states_of_json
from tiersnap.snapshot.report.files import read_json
from tiersnap.snapshot.report.html_parts import percent
from tiersnap.snapshot.report.model import Report, Sums
from tiersnap.snapshot.report.run_info import RunRecord, Size, WaitingAt

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Run(RunRecord):
    partitions: Size


@dataclass(frozen=True, kw_only=True)
class RunHead(Sums, _Run):
    """A run in the index. `applied` is False if the run only planned."""

    @classmethod
    def of(cls, report: Report) -> RunHead:
        """Return the index entry of a report's run."""
        return msgspec.convert({**vars(report.run), **vars(report.cluster)}, cls)


@dataclass(frozen=True)
class RunIndex:
    """The content of runs.json."""

    schema_version: Literal[1]
    runs: tuple[RunHead, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """The earlier runs in the folder of a report.

    Attributes:
        now: index entry of the report itself.
        runs: all index entries, including `now`, oldest first.
        before: the previous run; None for the first run.
        changes: changes since the previous run, by partition; None if the folder lacks the states of that run.
    """

    now: RunHead
    runs: tuple[RunHead, ...]
    before: RunHead | None = None
    changes: Changes | None = None

    @classmethod
    def of(cls, report: Report, folder: Path | None = None) -> Beside:
        """Return the earlier runs in a folder. Files that cannot be read are ignored."""
        head = RunHead.of(report)
        if folder is None:
            return cls(head, (head,))
        heads = with_head(read_heads(folder), head)
        older = heads[: heads.index(head)]
        if not older:
            return cls(head, heads)
        states = read_states(folder, older[-1].run_id)
        changes = None if states is None else compare_states(states, states_of(report))
        return cls(head, heads, older[-1], changes)

    def trend(self, report: Report) -> tuple[WaitingAt, ...]:
        """Return the waiting bytes by run, from the table `readiness`, else from the runs in the folder."""
        return report.trend or tuple(WaitingAt(each.finished_at, each.waiting_bytes) for each in self.runs)


def run_file(run_id: str) -> str:
    """Return the name of a run's files without the suffix."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", run_id)[:100] or "run"


def with_head(earlier: Iterable[RunHead], head: RunHead) -> tuple[RunHead, ...]:
    """Return index entries by time. `head` replaces an earlier entry of the same run."""
    others = [each for each in earlier if each.run_id != head.run_id]
    return tuple(sorted([*others, head], key=lambda each: (each.finished_at, each.run_id)))


def index_of(heads: tuple[RunHead, ...]) -> bytes:
    """Return runs.json, with one line per run."""
    rows = b",\n".join(map(msgspec.json.encode, heads))
    return b'{"schema_version": 1, "runs": [\n' + rows + b"\n]}\n"


def heads_of(index: bytes) -> tuple[RunHead, ...]:
    """Return the runs of a runs.json.

    Raises:
        ValueError: the text is not JSON of this version.
    """
    return read_json(index, RunIndex, "index of runs").runs


def read_heads(folder: Path) -> tuple[RunHead, ...]:
    """Return the runs in the index; () if the file is missing. If it cannot be read, log a warning and return ()."""
    try:
        return heads_of(read_regular(folder / "runs.json", follow=True))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        _log.warning("%s: cannot be read: %s; tiersnap starts an empty index of runs", folder / "runs.json", error)
        return ()


def read_states(folder: Path, run_id: str) -> States | None:
    """Return the states of a run's partitions, None if their file is missing or cannot be read."""
    kept = folder / "runs" / f"{run_file(run_id)}.json.gz"
    try:
        return states_of_json(gzip.decompress(read_regular(kept, follow=True)))
    except (OSError, ValueError, EOFError, zlib.error):
        return None


# Groups of segments and their titles, worst first.
GROUPS = {
    "waiting": "Waiting",
    "ready": "Ready",
    "uploaded": "Uploaded",
    "in_remote": "In remote storage",
    "tiered": "Tiered",
    "never_tiered": "Stays local",
}


def part_of(head: RunHead, group: str) -> str:
    """Return the share of a group in the run's bytes, in per cent."""
    return percent(100 * int(getattr(head, f"{group}_bytes")) / max(1, head.bytes))
