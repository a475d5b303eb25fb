"""Read the outcome of a run from its report, small enough for an XCom and an Asset's event.

    {"cluster": "eu-1", "exit_code": 0, "until": null,              value of --until
     "run_id": …, "applied": true, "report": "…/index.html", "remote": "s3://…",
     "segments_decoded", "snapshots_written", "segments_uploaded", "bytes_uploaded",            of this run
     "tiered_segments", "uploaded_segments", "ready_segments",                              all runs of the cluster
     "waiting_segments", "waiting_bytes",
     "blocked": [{"verdict", "partitions", "segments", "bytes", "next_step"}]}              largest first, at most 20

Bytes are those of `.log` files. Keys follow snapshot.report.model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Any

from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.units import count_of

# An event is a row of Airflow's database.
MOST_CAUSES = 20
_OF_RUN = ("run_id", "applied", "segments_decoded", "snapshots_written", "segments_uploaded", "bytes_uploaded")
_OF_CLUSTER = ("tiered_segments", "uploaded_segments", "ready_segments", "waiting_segments", "waiting_bytes")
_OF_CAUSE = ("verdict", "partitions", "segments", "bytes", "next_step")

ClusterOutcome = dict[str, object]


def read_outcome(report: Path, *, cluster: str, exit_code: int, until: str | None = None) -> ClusterOutcome | None:
    """Return the outcome of the run that wrote `report` last; None if the report is missing or incomplete.

    Args:
        until: value of the run's --until.
    """
    try:
        found = json.loads((report / "readiness.json").read_text(encoding="utf-8"))
        given = {"cluster": cluster, "exit_code": exit_code, "until": until}
        return given | _outcome(found, report / "index.html")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _outcome(found: Mapping[str, Any], page: Path) -> ClusterOutcome:
    run, totals = found["run"], found["cluster"]
    return {
        "report": str(page),
        "remote": run["remote"],
        **{name: run[name] for name in _OF_RUN},
        **{name: totals[name] for name in _OF_CLUSTER},
        "blocked": [{name: cause[name] for name in _OF_CAUSE} for cause in found["causes"][:MOST_CAUSES]],
    }


def until_of(words: Sequence[str]) -> str | None:
    """Return the value of --until among the arguments of `tiersnap run`; None without it."""
    return words[words.index("--until") + 1] if "--until" in words else None


def run_id(report: Path) -> str | None:
    """Return the id of the run that wrote `report` last."""
    found = read_outcome(report, cluster="", exit_code=0)
    return None if found is None else str(found["run_id"])


def in_words(outcome: Mapping[str, object]) -> list[str]:
    """Return lines for a log: the counts of the run, and the next step of each cause."""

    def counted(name: str, noun: str, plural: str = "") -> str:
        return count_of(int(str(outcome[name])), noun, plural)

    lines = [
        f"run {outcome['run_id']}: decoded {counted('segments_decoded', 'segment')}, wrote "
        f"{counted('snapshots_written', 'snapshot')}, uploaded {counted('segments_uploaded', 'segment')} "
        f"({counted('bytes_uploaded', 'byte')}); {counted('waiting_segments', 'segment waits', 'segments wait')}; "
        f"{_still_ready(outcome)}{outcome['report']}"
    ]
    causes = outcome["blocked"]
    assert isinstance(causes, list)
    lines += [
        f"{each['verdict']}: {count_of(each['segments'], 'segment')}; next: {each['next_step']}" for each in causes
    ]
    return lines


def _still_ready(outcome: Mapping[str, object]) -> str:
    """Return the number of READY segments that the run did not upload, for the line of its counts; "" for none."""
    count = int(str(outcome["ready_segments"]))
    if not count:
        return ""
    if outcome["until"] is None or not outcome["applied"]:
        return f"{count_of(count, 'segment is ready', 'segments are ready')}; "
    left = count_of(count, "ready segment is left", "ready segments are left")
    return f"{left} for later days (--until {outcome['until']}); "


_ENDED = re.compile(r"Error code is: (?P<code>-?[0-9]+)")


class Ending(Enum):
    """The end of a task, or its next try."""

    DONE = auto()
    WAIT = auto()
    FAIL = auto()
    AGAIN = auto()


_ENDINGS: dict[int, Ending] = {
    # The job is done, and a retry would find the same segments.
    **dict.fromkeys((ExitCode.OK, ExitCode.GATE_REFUSED, ExitCode.DATA_CORRUPT, ExitCode.PARTIAL), Ending.DONE),
    ExitCode.TRANSIENT: Ending.WAIT,
    ExitCode.USAGE: Ending.FAIL,
}


def exit_code_in(said: str) -> int:
    """Return the exit code in spark-submit's error; UNEXPECTED if the error names none."""
    found = _ENDED.search(said)
    return int(found["code"]) if found else int(ExitCode.UNEXPECTED)


def ending_of(code: int) -> Ending:
    """Return the end of a task whose driver returned this exit code."""
    return _ENDINGS.get(code, Ending.AGAIN)


def is_over(since: datetime, now: datetime, wait_at_most: timedelta) -> bool:
    """Return whether a task that has waited since `since` has used up its time."""
    return now - since >= wait_at_most
