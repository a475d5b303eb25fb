"""The pages of the other two questions: what was lost or doubled, and what happens if this broker dies now."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from tiersnap.snapshot.readiness.verdict import LEVEL, Level, Verdict
from tiersnap.snapshot.report.exactly_once import HARMS, MEETS, Audit, ExactlyOnce, Failover
from tiersnap.snapshot.report.html_environment import render
from tiersnap.snapshot.report.html_parts import Piece, many, side_by_side
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.next_step import Place, Step, options_of, steps

# Colours that pages have for verdicts on segments.
_COLOURS = {
    "SUSPECT": "SUSPECT_SNAPSHOT",
    "UNVERIFIED": "UNVERIFIED_SNAPSHOT",
    "NOT_COMPARED": "UNVERIFIED_SNAPSHOT",
    "CORRUPT": "CORRUPT_SNAPSHOT",
    "NONE": "ACTIVE_SEGMENT",
    "EXTENDS": "READY",
    "MATCHES": "ALREADY_TIERED",
}
# What a headline says of the worst that was found, worst first.
_WRONG = {
    "SUSPECT": "would start from a snapshot that contradicts the log",
    "CORRUPT": "would start without their newest snapshot, which cannot be read",
    "UNVERIFIED": "would start from a snapshot that was not compared with the log",
    "NOT_COMPARED": "would start from a snapshot that was not compared with the log",
}
_HARM_COLOURS = {
    "LOSS": "CORRUPT_SEGMENT",
    "DUPLICATE": "MISSING_SNAPSHOT",
    "FENCING": "SUSPECT_SNAPSHOT",
    "TRANSACTION": "ABOVE_LSO",
    "NONE": "ACTIVE_SEGMENT",
}


def lost_html(report: Report, known: ExactlyOnce) -> str:
    """lost.html: what was lost or doubled."""
    audit = known.audit
    where = " --to WAREHOUSE" if report.run.warehouse else ""
    return render(
        "lost.html.j2",
        report.run,
        root="",
        here="lost.html",
        headline=_lost_headline(audit),
        level=_level([] if audit is None else _by_harm(audit), _HARM_COLOURS),
        report=report,
        audit=audit,
        harms=HARMS,
        colours=_HARM_COLOURS,
        bar=_bar({}, {}) if audit is None else _bar(_by_harm(audit), _HARM_COLOURS),
        audit_steps=steps(f"tiersnap audit --source SOURCE{where}", report.run, Place()),
    )


def failover_html(report: Report, known: ExactlyOnce) -> str:
    """failover.html: what happens if this broker dies now."""
    failover = known.failover
    return render(
        "failover.html.j2",
        report.run,
        root="",
        here="failover.html",
        headline=_failover_headline(failover),
        level=_level([] if failover is None else failover.counts, _COLOURS),
        report=report,
        failover=failover,
        many_log_dirs=len(report.log_dirs) > 1,
        meets={str(name): words for name, words in MEETS.items()},
        colours=_COLOURS,
        bar=_bar({}, {}) if failover is None else _bar(failover.counts, _COLOURS),
        simulate_steps=_simulate_steps(report),
    )


def _lost_headline(audit: Audit | None) -> str:
    if audit is None:
        return "Nobody has audited these logs yet"
    if audit.harmful:
        return f"{many(audit.harmful, 'finding')} of records lost, doubled or written by whom they should not"
    return "The audit found nothing lost and nothing doubled"


def _failover_headline(failover: Failover | None) -> str:
    if failover is None:
        return "This report was made without a look at the newest snapshots"
    partitions = sum(failover.counts.values())
    for found, says in _WRONG.items():
        if count := failover.counts.get(found):
            return f"{count:,} of {many(partitions, 'partition')} {says}"
    return f"No partition of {partitions:,} would start from a snapshot that contradicts the log"


def _level(found: Iterable[str], colours: Mapping[str, str]) -> Level:
    """Return what the worst of the things found asks for, which colours the headline above them."""
    levels = [LEVEL[Verdict(colours.get(name, "ACTIVE_SEGMENT"))] for name in found]
    return min(levels, key=list(Level).index, default=Level.SETTLED)


def _simulate_steps(report: Report) -> tuple[Step, ...]:
    log_dir = report.log_dirs[0] if len(report.log_dirs) == 1 else ""
    place = shlex.quote(report.run.collected.get(log_dir, log_dir)) if log_dir else "LOGDIR"
    kept = shlex.join(["", *options_of(report.run, "tiersnap simulate")]).removeprefix("''")
    return (
        Step(
            "What every producer would meet if this replica led from its own newest snapshot, by releases of brokers "
            "and clients:",
            f"tiersnap simulate {place}{kept}",
            bool(log_dir),
        ),
        Step(
            "The same of a follower that begins with an empty one:",
            f"tiersnap simulate {place} --from empty{kept}",
            bool(log_dir),
        ),
    )


def _by_harm(audit: Audit) -> dict[str, int]:
    found = dict.fromkeys(HARMS, 0)
    for each in audit.counts:
        found[each.harm] = found.get(each.harm, 0) + each.findings
    return {harm: count for harm, count in found.items() if count}


def _bar(counts: Mapping[str, int], colours: Mapping[str, str]) -> list[Piece]:
    parts = ((colours.get(name, "ACTIVE_SEGMENT"), count, f"{name} · {count:,}") for name, count in counts.items())
    return side_by_side(parts, sum(counts.values()))
