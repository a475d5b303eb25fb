"""The HTML pages of a report. They load nothing from a network, and work from file://, in dark mode and on paper.

Templates, style and script are files of this package. jinja2 escapes all text of logs. A content security policy
allows only our style, our script and the files in the page's folder. Those files have details that the page loads on
demand.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tiersnap.snapshot.gate.next_steps import RESTORE_PRODUCERS, VERIFY_LOCATION
from tiersnap.snapshot.gate.printed_steps import Place, Step
from tiersnap.snapshot.gate.step_template import Hole, NextStep
from tiersnap.snapshot.gate.verdict import LEVEL, MEANING, RANK, TO_UPLOAD, Level, Verdict
from tiersnap.snapshot.report import html_parts as parts
from tiersnap.snapshot.report.exactly_once import HARMS, MEETS, Audit, ExactlyOnce, Failover
from tiersnap.snapshot.report.html_parts import INLINE, Piece, listed_topics, many, side_by_side
from tiersnap.snapshot.report.model import PageTopic, Report
from tiersnap.snapshot.report.run_history import GROUPS, Beside, part_of, run_file
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.step_place import by_segment, place_of
from tiersnap.snapshot.report.timeline import runs
from tiersnap.snapshot.report.verified_in_words import remote_checked, snapshot_counts
from tiersnap.snapshot.report.waiting_trend import plot_of
from tiersnap.snapshot.units import human_bytes

# The pages of a report, in the order of the navigation.
PAGES = {
    "index.html": "What is stuck",
    "lost.html": "What was lost or doubled",
    "failover.html": "If this broker dies now",
    "runs.html": "Runs",
}
_POLICY = "default-src 'none'; style-src {style}; script-src {script} 'self'; base-uri 'none'; form-action 'none'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tiersnap.snapshot.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {
            "bytes": human_bytes,
            "number": parts.number,
            "time": parts.time,
            "day": parts.day,
            "days": parts.days,
            "many": parts.many,
            "topic_anchor": parts.topic_anchor,
            "partition_anchor": parts.partition_anchor,
            "key_anchor": parts.partition_anchor,
            "run_file": run_file,
        }
    )
    environment.globals.update(
        {
            "bar": parts.bar,
            "disk_bar": parts.disk_bar,
            "timeline": parts.rectangles,
            "marks": parts.marks,
            "share": parts.share,
            "runs": runs,
            "groups": GROUPS,
            "part_of": part_of,
            "difference": parts.difference,
            "pages": PAGES,
            "by_segment": by_segment,
            "words_of": parts.words_of,
            "worst_first": parts.worst_first,
        }
    )
    return environment


@cache
def _asset(name: str) -> tuple[Markup, str]:
    """Return a style or script with its hash for the content security policy."""
    environment = _environment()
    assert environment.loader is not None
    text, *_ = environment.loader.get_source(environment, name)
    text = text.strip()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    # The text is from our package and contains no data of a log.
    return Markup(text), f"'sha256-{digest}'"


def render(template: str, run: RunInfo, **values: object) -> str:
    """Return the page that results from a template, the run, our style and script, and `values`."""
    style, style_hash = _asset("style.css")
    script, script_hash = _asset("script.js")
    policy = _POLICY.format(style=style_hash, script=script_hash)
    return _environment().get_template(template).render(run=run, style=style, script=script, policy=policy, **values)


# A row in the list of topics has about 2 KB.
MAX_TOPICS = 500
MAX_RUNS = 12
MAX_CHANGES, MAX_MOVES = 10, 6
MAX_HEADS = 400
# The page that is kept for each run lists fewer topics.
KEPT_TOPICS = 50


def to_html(report: Report, beside: Beside | None = None, *, inline: int = INLINE, max_topics: int = MAX_TOPICS) -> str:
    """Return index.html, the page about blocked segments.

    Args:
        beside: earlier runs; None if the report has no folder.
        inline: number of partitions in the page. `detail_files` contains the others.
        max_topics: number of topics in the page, worst first.
    """
    return _page(report, beside or Beside.of(report), inline, max_topics, root="")


def to_kept_html(report: Report, beside: Beside) -> str:
    """Return runs/<run id>.html, the short page that is kept for each run."""
    return _page(report, beside, KEPT_TOPICS, KEPT_TOPICS, root="../")


def _page(report: Report, beside: Beside, inline: int, max_topics: int, *, root: str) -> str:
    listed, total = listed_topics(report, inline=inline, max_topics=max_topics), report.cluster
    return render(
        "page.html.j2",
        report.run,
        root=root,
        here="" if root else "index.html",
        report=report,
        beside=beside,
        total=total,
        cure_steps=(_of_host(report).render(RESTORE_PRODUCERS),),
        forecast=report.forecast,
        snapshots=snapshot_counts(report),
        remote_checked=remote_checked(report),
        verify_steps=_verify_steps(report.run),
        examples=parts.examples(report),
        further=_further(report),
        plot=None if root else plot_of(beside.trend(report)),
        headline=parts.headline(report),
        topics=listed[:max_topics],
        more_topics=len(report.topics) > max_topics,
        levels=_by_level(report),
        many_log_dirs=len(report.log_dirs) > 1,
        meaning=MEANING,
        level_of=LEVEL,
        rank=RANK,
        max_runs=MAX_RUNS,
        max_changes=MAX_CHANGES,
        max_moves=MAX_MOVES,
    )


def _by_level(report: Report) -> dict[Level, int]:
    """Return the number of topics by level."""
    levels = dict.fromkeys(Level, 0)
    for topic in report.topics:
        levels[topic.level] += 1
    return levels


# Verdicts of segments that are not blocked but wait for a command, worst first.
_FURTHER = (*sorted(TO_UPLOAD, key=RANK.__getitem__), Verdict.UPLOADED, Verdict.IN_REMOTE)


def _further(report: Report) -> dict[Verdict, tuple[Step, ...]]:
    """Return the steps by verdict, worst first.

    If several verdicts have the same steps, the worst of these verdicts has the steps, and the others have none.
    """
    place = place_of(report.run)
    shown: set[tuple[Step, ...]] = set()
    found: dict[Verdict, tuple[Step, ...]] = {}
    for verdict in _FURTHER:
        if verdict not in report.cluster.verdicts:
            continue
        steps = place.steps(verdict)
        found[verdict] = () if steps in shown else steps
        shown.add(steps)
    return found


def _verify_steps(run: RunInfo) -> tuple[Step, ...]:
    """Return the command that verifies remote storage, or nothing if the remote location is unknown."""
    if not run.remote:
        return ()
    where = ("--warehouse", run.warehouse) if run.warehouse else ()
    return (place_of(run).render(NextStep("", (*VERIFY_LOCATION.argv, *where))),)


def _of_host(report: Report) -> Place:
    return place_of(report.run, () if report.run.warehouse else report.log_dirs)


def runs_html(report: Report, beside: Beside) -> str:
    """Return runs.html, the list of all runs."""
    return render(
        "runs.html.j2",
        report.run,
        root="",
        here="runs.html",
        heads=beside.runs[-MAX_HEADS:],
        level=beside.now.level,
        plot=plot_of(beside.trend(report)),
    )


def detail_files(report: Report, *, inline: int = INLINE, max_topics: int = MAX_TOPICS) -> Iterator[tuple[str, str]]:
    """Yield path and script of each file that index.html loads on demand. The arguments are those of `to_html`."""
    listed = listed_topics(report, inline=inline, max_topics=max_topics)
    common = {"many_log_dirs": len(report.log_dirs) > 1, "max_runs": MAX_RUNS, "rank": RANK, "root": ""}
    pieces = ((file, each, partitions) for each in listed for file, partitions in each.pieces())
    for file, held in groupby(pieces, key=itemgetter(0)):
        html = render("details.html.j2", report.run, pieces=[each[1:] for each in held], topics=(), **common)
        yield _script(f"details/partitions-{file}.js", report, html)
    further = listed[max_topics:]
    if further:
        yield _script("details/topics.js", report, [_sums(each.topic) for each in further])
    for number, start in enumerate(range(0, len(further), max_topics), 1):
        html = render("details.html.j2", report.run, pieces=(), topics=further[start : start + max_topics], **common)
        yield _script(f"details/topics-{number}.js", report, html)


def _sums(topic: PageTopic) -> tuple[str | int, ...]:
    """Return the values by which the page filters and sorts topics, in the order that its script expects."""
    worst = len(RANK) if topic.worst is None else RANK[topic.worst]
    sizes = topic.bytes, topic.tiered_bytes, topic.uploaded_bytes, topic.ready_bytes, topic.waiting_bytes
    return (topic.topic, topic.level, worst, len(topic.partitions), topic.segments, *sizes)


def _script(name: str, report: Report, held: object) -> tuple[str, str]:
    """Return (path, script) of a file that passes `held` to the page. The page refuses a file with another run id."""
    arguments = ", ".join(json.dumps(each, ensure_ascii=False) for each in (name, report.run.run_id, held))
    return name, f"tiersnapLoaded({arguments});\n"


# A snapshot verdict has the colour of this segment verdict.
_COLOURS = {
    "SUSPECT": "SUSPECT_SNAPSHOT",
    "UNVERIFIED": "UNVERIFIED_SNAPSHOT",
    "NOT_COMPARED": "UNVERIFIED_SNAPSHOT",
    "CORRUPT": "CORRUPT_SNAPSHOT",
    "NONE": "ACTIVE_SEGMENT",
    "EXTENDS": "READY",
    "MATCHES": "TIERED",
}
# Headlines of failover.html by the worst snapshot verdict, worst first.
_WRONG = {
    "SUSPECT": "would start from a snapshot that contradicts the log",
    "CORRUPT": "would start without their newest snapshot, which cannot be read",
    "UNVERIFIED": "would start from a snapshot that was not compared with the log",
    "NOT_COMPARED": "would start from a snapshot that was not compared with the log",
}
# The level of a headline if nothing was compared. The page shows it in grey.
_UNKNOWN, _NOT_KNOWN = "UNKNOWN", ("UNVERIFIED", "NOT_COMPARED")
_HARM_COLOURS = {
    "LOSS": "CORRUPT_SEGMENT",
    "DUPLICATE": "MISSING_SNAPSHOT",
    "FENCING": "SUSPECT_SNAPSHOT",
    "TRANSACTION": "ABOVE_LSO",
    "NONE": "ACTIVE_SEGMENT",
}


def lost_html(report: Report, known: ExactlyOnce) -> str:
    """Return lost.html, the page about lost and duplicate records."""
    audit = known.audit
    by_harm, rows = ({}, ()) if audit is None else (_by_harm(audit), audit.rows)
    where = ("--to", report.run.warehouse) if report.run.warehouse else ()
    return render(
        "lost.html.j2",
        report.run,
        root="",
        here="lost.html",
        headline=_lost_headline(audit),
        level=_UNKNOWN if audit is None else _level([*by_harm, "NONE"], _HARM_COLOURS),
        report=report,
        audit=audit,
        harms=HARMS,
        colours=_HARM_COLOURS,
        bar=_bar(by_harm, _HARM_COLOURS),
        by_harm=by_harm,
        found=Counter(each.harm for each in rows),
        audit_steps=(place_of(report.run).render(NextStep("", ("audit", Hole.SOURCES, *where))),),
    )


def failover_html(report: Report, known: ExactlyOnce, folder: str = "tiersnap-report") -> str:
    """Return failover.html, the page about a failure of this broker. `folder` is the folder of the report."""
    failover = known.failover
    counts, rows = ({}, ()) if failover is None else (failover.counts, failover.rows)
    return render(
        "failover.html.j2",
        report.run,
        root="",
        here="failover.html",
        headline=_failover_headline(failover),
        level=_level(counts, _COLOURS),
        report=report,
        failover=failover,
        many_log_dirs=len(report.log_dirs) > 1,
        meets={str(name): words for name, words in MEETS.items()},
        colours=_COLOURS,
        bar=_bar(counts, _COLOURS),
        found=Counter(each.found for each in rows),
        simulate_steps=_simulate_steps(report),
        examine_steps=(_of_host(report).render(_examine(report.run, folder)),),
    )


def _lost_headline(audit: Audit | None) -> str:
    if audit is None:
        return "These logs have not been audited"
    if audit.harmful:
        return f"{many(audit.harmful, 'finding')} of records lost, doubled or wrongly written"
    return "The audit found nothing lost and nothing doubled"


def _failover_headline(failover: Failover | None) -> str:
    if failover is None:
        return "The newest snapshots were not examined"
    partitions = sum(failover.counts.values())
    for found, says in _WRONG.items():
        if count := failover.counts.get(found):
            return f"{count:,} of {many(partitions, 'partition')} {says}"
    return f"None of {many(partitions, 'partition')} would start from a snapshot that contradicts the log"


def _level(found: Iterable[str], colours: Mapping[str, str]) -> str:
    """Return the level of the worst verdict, for the headline's colour. It is _UNKNOWN if nothing was compared."""
    worst = next(iter(found), "NOT_COMPARED")
    return _UNKNOWN if worst in _NOT_KNOWN else LEVEL[Verdict(colours.get(worst, "ACTIVE_SEGMENT"))]


def _examine(run: RunInfo, folder: str) -> NextStep:
    """Return the step that writes a report with the newest snapshots into `folder`."""
    if run.warehouse:
        return NextStep("", ("report", "--warehouse", run.warehouse, "--to", folder))
    return NextStep("", ("scan", Hole.LOG_DIRS, "--report", folder))


def _simulate_steps(report: Report) -> tuple[Step, ...]:
    log_dir = report.log_dirs[0] if len(report.log_dirs) == 1 else ""
    place = place_of(report.run, (report.run.collected.get(log_dir, log_dir),) if log_dir else ())
    return tuple(map(place.render, _SIMULATE))


_SIMULATE = (
    NextStep(
        "To print the answers that producers would get, per release of broker and client, if this replica became "
        "leader with its newest snapshot:",
        ("simulate", Hole.LOG_DIRS),
    ),
    NextStep(
        "To print these answers for a follower that starts with an empty snapshot:",
        ("simulate", Hole.LOG_DIRS, "--from", "empty"),
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
