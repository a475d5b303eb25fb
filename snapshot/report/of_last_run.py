"""What a report of a warehouse says of the run that its facts are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiersnap.snapshot import __version__
from tiersnap.snapshot.report.run_info import RunCounts, RunInfo

_COUNTS = ("segments_decoded", "bytes_decoded", "snapshots_written", "segments_tiered", "bytes_tiered")


def last_run_info(
    last: Mapping[str, Any], warehouse: str, source: str | None, remote: str | None, *, at: int, now: int
) -> RunInfo:
    """The last run, as it is looked at now; no disks are named.

    Args:
        last: a row of `runs` with its settings taken apart; empty where none is recorded.
        source, remote: named in commands instead of those of the run.
        at: epoch ms, when it is looked at.
        now: epoch ms at which the verdicts hold.
    """
    settings = last.get("settings", {})
    sources = (source,) if source else tuple(settings.get("sources", ()))
    collected = settings.get("collected", {})
    return RunInfo(
        run_id=last.get("run_id", ""),
        started_at=at,
        finished_at=at,
        judged_at=None if now == at else now,
        source=", ".join(sources) or "LOGDIR",
        remote=remote or settings.get("remote", ""),
        warehouse=warehouse,
        version=__version__,
        applied=settings.get("apply", False),
        sources=sources,
        collected=collected,
        counts=RunCounts(**{name: last[name] for name in _COUNTS if name in last}),
        options={command: tuple(words) for command, words in settings.get("options", {}).items()},
    )
