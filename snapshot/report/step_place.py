"""The host or fleet and the remote location for which a report prints its next steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tiersnap.snapshot.gate.printed_steps import OF_CLUSTER, OF_LOCATION, Place
from tiersnap.snapshot.gate.step_template import Hole, NextStep
from tiersnap.snapshot.report.run_info import RunInfo


def segment_file(log_dir: str, topic: str, partition: int, base_offset: int) -> str:
    """Return the path of a segment file."""
    return f"{log_dir.rstrip('/')}/{topic}-{partition}/{base_offset:020d}.log"


def place_of(run: RunInfo, log_dirs: tuple[str, ...] = ()) -> Place:
    """Return the place for a report's steps.

    Args:
        log_dirs: log directories of one host; empty if the steps are for several hosts.
    """
    return judged_place(_sources(run), run.remote, run.warehouse, run.options, log_dirs)


def judged_place(
    sources: tuple[str, ...],
    remote: str,
    warehouse: str,
    options: Mapping[str, tuple[str, ...]],
    log_dirs: tuple[str, ...] = (),
) -> Place:
    """Return the place for steps after a run.

    Args:
        sources: log directories or collected folders of the run.
        remote: URI of the remote location; "" if unknown.
        warehouse: URI of a fleet's warehouse, "" for a host. The steps use `run` for a fleet, and `tier` for a host.
        options: see RunInfo.
        log_dirs: see `place_of`.
    """
    each_source = tuple(word for each in sources for word in ("--source", each))
    tier: tuple[str | Hole, ...] = ("tier", *sources, "--remote", Hole.REMOTE)
    if warehouse:
        tier = ("run", *each_source, "--remote", Hole.REMOTE, "--warehouse", warehouse)
    known = {
        Hole.SOURCES: each_source,
        Hole.LOG_DIRS: log_dirs,
        Hole.REMOTE: (remote, *_words_of(OF_LOCATION, options)) if remote else (),
        Hole.CLUSTER: tuple(_words_of(OF_CLUSTER, options)),
        Hole.SERVER: tuple(_words_of(OF_CLUSTER[:1], options))[1:],
    }
    return Place(tier, known, options)


def _words_of(names: tuple[str, ...], options: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the words of the named options. `run` and `tier` accept the same options of location and cluster."""
    is_kept = False
    for each in options.get("run") or options.get("tier") or ():
        if each.startswith("--"):
            is_kept = each in names
        if is_kept:
            yield each


def _sources(run: RunInfo) -> tuple[str, ...]:
    return run.sources or (run.source,)


def by_segment(run: RunInfo) -> str:
    """Return the command that lists each segment of a report."""
    listing = ("scan", *_sources(run), "--segments")
    if run.warehouse:
        listing = ("report", "--warehouse", run.warehouse, "--by", "segment")
    return place_of(run).text(NextStep("", listing))
