"""The report as HTML pages: no network, no font, no library; they work from file://, in the dark and on paper.

Templates, style and script are separate files of the package, put together here. What comes from the log is escaped by
jinja2; a content security policy forbids the browser everything but our own style and script, and files beside the
page, which hold the details that are loaded as they are opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tiersnap.snapshot.readiness.verdict import DISPLAY_ORDER, LEVEL, MEANING, NEXT_STEP, RANK, Level, Verdict
from tiersnap.snapshot.report import html_parts as parts
from tiersnap.snapshot.report.html_environment import render
from tiersnap.snapshot.report.html_runs import columns
from tiersnap.snapshot.report.listed import INLINE, listed_topics
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.next_step import Place, steps
from tiersnap.snapshot.report.run_history import Beside

# A row of the list of topics is about 2 KB.
MAX_TOPICS = 500
MAX_RUNS = 12
MAX_CHANGES = 20
MAX_HEADS = 400
# What is kept of each run is a short page.
KEPT_TOPICS = 50


def to_html(report: Report, beside: Beside | None = None, *, inline: int = INLINE, max_topics: int = MAX_TOPICS) -> str:
    """index.html: what is stuck.

    Args:
        beside: the runs before; None for a report that stands alone.
        inline: so many partitions are on the page itself; the others are in `detail_files`.
        max_topics: likewise of topics, worst first.
    """
    return _page(report, beside or Beside.of(report), inline, max_topics, root="")


def to_kept_html(report: Report, beside: Beside) -> str:
    """runs/<run id>.html: what is kept of a run as a page, without the files that load."""
    return _page(report, beside, KEPT_TOPICS, KEPT_TOPICS, root="../")


def _page(report: Report, beside: Beside, inline: int, max_topics: int, *, root: str) -> str:
    listed = listed_topics(report, inline=inline, max_topics=max_topics)
    return render(
        "page.html.j2",
        report.run,
        root=root,
        here="" if root else "index.html",
        report=report,
        beside=beside,
        total=report.cluster,
        diff_steps=beside.diff_steps(),
        forecast=report.forecast,
        snapshots=parts.snapshot_counts(report),
        examples=parts.examples(report),
        ready_steps=steps(NEXT_STEP[Verdict.READY], report.run, Place()),
        headline=parts.headline(report),
        topics=listed[:max_topics],
        more_topics=-(-len(report.topics) // max_topics) - 1,
        levels={level: sum(topic.level is level for topic in report.topics) for level in Level},
        many_log_dirs=len(report.log_dirs) > 1,
        verdicts=DISPLAY_ORDER,
        meaning=MEANING,
        level_of=LEVEL,
        rank=RANK,
        max_runs=MAX_RUNS,
        max_changes=MAX_CHANGES,
    )


def runs_html(report: Report, beside: Beside) -> str:
    """runs.html: the index of runs."""
    return render(
        "runs.html.j2",
        report.run,
        root="",
        here="runs.html",
        heads=beside.runs[-MAX_HEADS:],
        columns=columns(beside.runs),
        diff_steps=beside.diff_steps(),
    )


def detail_files(report: Report, *, inline: int = INLINE, max_topics: int = MAX_TOPICS) -> Iterator[tuple[str, str]]:
    """(path, script) of what index.html loads; arguments as of `to_html`."""
    listed = listed_topics(report, inline=inline, max_topics=max_topics)
    common = {"many_log_dirs": len(report.log_dirs) > 1, "max_runs": MAX_RUNS, "rank": RANK}
    for each in listed:
        for number, partitions in enumerate(each.pieces()):
            html = render("details.html.j2", report.run, partitions=partitions, topics=(), root="", **common)
            yield _script(f"details/{each.number}-{number}.js", report, html)
    for start in range(max_topics, len(listed), max_topics):
        topics = listed[start : start + max_topics]
        html = render("details.html.j2", report.run, partitions=(), topics=topics, root="", **common)
        yield _script(f"details/topics-{start // max_topics}.js", report, html)


def _script(name: str, report: Report, html: str) -> tuple[str, str]:
    """A file that hands escaped HTML to the page; the run's id tells the page whether it is of its own run."""
    arguments = ", ".join(json.dumps(each, ensure_ascii=False) for each in (name, report.run.run_id, html))
    return name, f"tiersnapLoaded({arguments});\n"
