"""The outcome of a run, read from its report. It is small enough for an XCom and an Asset event.

    {"cluster": "eu-1", "exit_code": 0, "until": null,              value of --until
     "run_id": …, "applied": true, "report": "…/index.html", "remote": "s3://…",
     "segments_decoded", "snapshots_written", "segments_uploaded", "bytes_uploaded",            of this run
     "tiered_segments", "uploaded_segments", "ready_segments",                              all runs of the cluster
     "waiting_segments", "waiting_bytes",
     "blocked": [{"verdict", "partitions", "segments", "bytes", "next_step"}]}              largest first, at most 20

Bytes count `.log` files only. The keys are the names of fields in snapshot.report.model.
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

# The limit keeps events small: each is a row in Airflow's database.
MOST_CAUSES = 20
_OF_RUN = ("run_id", "applied", "segments_decoded", "snapshots_written", "segments_uploaded", "bytes_uploaded")
_OF_CLUSTER = ("tiered_segments", "uploaded_segments", "ready_segments", "waiting_segments", "waiting_bytes")
_OF_CAUSE = ("verdict", "partitions", "segments", "bytes", "next_step")

ClusterOutcome = dict[str, object]


def read_outcome(report: Path, *, cluster: str, exit_code: int, until: str | None = None) -> ClusterOutcome | None:
    """Return the outcome of the last run that wrote this report; None if the report is missing or incomplete.

    Args:
        report: folder of the report.
        cluster: name of the cluster.
        exit_code: exit code of the run.
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
        **_selected(run, _OF_RUN),
        **_selected(totals, _OF_CLUSTER),
        "blocked": [_selected(cause, _OF_CAUSE) for cause in found["causes"][:MOST_CAUSES]],
    }


def _selected(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: found[name] for name in names}


def until_of(words: Sequence[str]) -> str | None:
    """Return the value of --until in the arguments of `tiersnap run`; None without that option."""
    if "--until" not in words:
        return None
    return words[words.index("--until") + 1]


def run_id(report: Path) -> str | None:
    """Return the id of the last run that wrote the report in this folder; None without a complete report."""
    found = read_outcome(report, cluster="", exit_code=0)
    if found is None:
        return None
    return str(found["run_id"])


def in_words(outcome: Mapping[str, object]) -> list[str]:
    """Return the lines to log: the counts of the run, and the next step for each blocking cause."""

    def counted(name: str, noun: str, plural: str = "") -> str:
        return count_of(int(str(outcome[name])), noun, plural)

    lines = [
        f"run {outcome['run_id']}: decoded {counted('segments_decoded', 'segment')}, wrote "
        f"{counted('snapshots_written', 'snapshot')}, uploaded {counted('segments_uploaded', 'segment')} "
        f"({counted('bytes_uploaded', 'byte')}); {counted('waiting_segments', 'segment')} cannot be tiered yet; "
        f"{_still_ready(outcome)}report: {outcome['report']}"
    ]
    causes = outcome["blocked"]
    assert isinstance(causes, list)
    return lines + list(map(_cause_in_words, causes))


def _cause_in_words(cause: Mapping[str, Any]) -> str:
    return f"{cause['verdict']}: {count_of(cause['segments'], 'segment')}; next: {cause['next_step']}"


def _still_ready(outcome: Mapping[str, object]) -> str:
    """Return a phrase with the number of READY segments that the run did not upload; an empty string for none."""
    count = int(str(outcome["ready_segments"]))
    if not count:
        return ""
    if outcome["until"] is None or not outcome["applied"]:
        return f"{count_of(count, 'segment is ready', 'segments are ready')}; "
    left = count_of(count, "ready segment is left", "ready segments are left")
    return f"{left} for later days, because --until was {outcome['until']}; "


_ENDED = re.compile(r"Error code is: (?P<code>-?[0-9]+)")


class Ending(Enum):
    """The reaction of a task to the driver's exit code."""

    DONE = auto()  # the task succeeds
    WAIT = auto()  # Airflow starts the task again later, without using up a retry
    FAIL = auto()  # the task fails without a retry
    AGAIN = auto()  # the task fails, and Airflow retries it


_ENDINGS: dict[int, Ending] = {
    # The job has finished. A retry would have the same result.
    **dict.fromkeys((ExitCode.OK, ExitCode.GATE_REFUSED, ExitCode.DATA_CORRUPT, ExitCode.PARTIAL), Ending.DONE),
    ExitCode.TRANSIENT: Ending.WAIT,
    ExitCode.USAGE: Ending.FAIL,
}


def exit_code_in(said: str) -> int:
    """Return the exit code in the text of spark-submit's error; ExitCode.UNEXPECTED if the text has none."""
    found = _ENDED.search(said)
    return int(found["code"]) if found else int(ExitCode.UNEXPECTED)


def ending_of(code: int) -> Ending:
    """Return the reaction to the driver's exit code; AGAIN for an unknown code."""
    return _ENDINGS.get(code, Ending.AGAIN)


def is_over(since: datetime, now: datetime, wait_at_most: timedelta) -> bool:
    """Return whether at least `wait_at_most` has passed between `since` and `now`."""
    return now - since >= wait_at_most
