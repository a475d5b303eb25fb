"""The place of a report's next steps: the host or the fleet that was judged, and its remote location."""

from __future__ import annotations

import shlex

from tiersnap.snapshot.gate.commands import Place
from tiersnap.snapshot.gate.next_step import Hole
from tiersnap.snapshot.report.run_info import RunInfo


def segment_file(log_dir: str, topic: str, partition: int, base_offset: int) -> str:
    """Return the path of a segment below its log directory."""
    return f"{log_dir.rstrip('/')}/{topic}-{partition}/{base_offset:020d}.log"


def place_of(run: RunInfo, log_dirs: tuple[str, ...] = ()) -> Place:
    """Return the place of steps.

    Args:
        log_dirs: entries of log.dirs of one host; empty if the steps are not for one host.
    """
    sources = tuple(word for each in _sources(run) for word in ("--source", each))
    remote = ("--remote", Hole.REMOTE)
    tier: tuple[str | Hole, ...]
    if run.warehouse:
        tier = ("run", *sources, *remote, "--warehouse", run.warehouse)
    else:  # of one host, where `tier` does what `run` does for a fleet
        tier = ("tier", *_sources(run), *remote)
    known = {Hole.SOURCES: sources, Hole.LOG_DIRS: log_dirs, Hole.REMOTE: (run.remote,) if run.remote else ()}
    return Place(tier, known, run.options)


def _sources(run: RunInfo) -> tuple[str, ...]:
    return run.sources or (run.source,)


def by_segment(run: RunInfo) -> str:
    """Return the command that lists every segment of a report."""
    if run.warehouse:
        return shlex.join(["tiersnap", "report", "--warehouse", run.warehouse, "--by", "segment"])
    return shlex.join(["tiersnap", "scan", *_sources(run), "--segments"])
