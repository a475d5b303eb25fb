"""The report as one HTML page: no network, no font, no library; works from file://, in the dark and on paper.

Templates, style and script are separate files of the package, put together here. What comes from the log is escaped by
jinja2; a content security policy with the hashes of our own style and script forbids the browser everything else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tiersnap.snapshot.gate.readiness import NEXT_STEP, Verdict
from tiersnap.snapshot.report import html_parts as parts
from tiersnap.snapshot.report.model import PartitionReport, Report, TopicReport
from tiersnap.snapshot.report.next_step import Place, steps
from tiersnap.snapshot.report.severity import DISPLAY_ORDER, LEVEL, MEANING, RANK, Level
from tiersnap.snapshot.units import human_bytes

# A row of the list of topics is about 2 KB.
MAX_TOPICS = 500
MAX_RUNS = 12

_POLICY = "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


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
            "many": parts.many,
            "topic_anchor": parts.topic_anchor,
            "partition_anchor": parts.partition_anchor,
        }
    )
    environment.globals.update(
        {"bar": parts.bar, "timeline": parts.strip, "marks": parts.marks, "share": parts.share, "runs": parts.run_list}
    )
    return environment


@cache
def _asset(name: str) -> tuple[Markup, str]:
    """A style or script, as it is, and its hash as a content security policy wants it."""
    environment = _environment()
    assert environment.loader is not None
    text, *_ = environment.loader.get_source(environment, name)
    text = text.strip()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    # Ours, from the package; never a place for data.
    return Markup(text), f"'sha256-{digest}'"


def to_html(report: Report, *, max_topics: int = MAX_TOPICS) -> str:
    """The page; partitions without a timeline are only counted, and so are topics beyond `max_topics`, worst first."""
    style, style_hash = _asset("style.css")
    script, script_hash = _asset("script.js")
    topics = report.topics[:max_topics]
    detailed = sum(bool(partition.timeline) for topic in report.topics for partition in topic.partitions)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            run=report.run,
            total=report.cluster,
            examples=parts.examples(report),
            ready_steps=steps(NEXT_STEP[Verdict.READY], report.run, Place()),
            headline=parts.headline(report),
            topics=topics,
            topics_left_out=len(report.topics) - len(topics),
            detailed=detailed,
            shown=_shown,
            levels={level: sum(topic.totals.level is level for topic in topics) for level in Level},
            many_log_dirs=len(report.log_dirs) > 1,
            verdicts=DISPLAY_ORDER,
            meaning=MEANING,
            level_of=LEVEL,
            rank=RANK,
            max_runs=MAX_RUNS,
            style=style,
            script=script,
            policy=_POLICY.format(style=style_hash, script=script_hash),
        )
    )


def _shown(topic: TopicReport) -> list[PartitionReport]:
    return [partition for partition in topic.partitions if partition.timeline]
