"""Templates, style and script of the package, and the words that templates have for values."""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tiersnap.snapshot.report import html_parts as parts
from tiersnap.snapshot.report.html_runs import GROUPS, part_of
from tiersnap.snapshot.report.next_step import by_segment
from tiersnap.snapshot.report.run_history import run_file
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.timeline import runs
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
        }
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


def render(template: str, run: RunInfo, **values: object) -> str:
    """A template with the run, our style and script, and `values`."""
    style, style_hash = _asset("style.css")
    script, script_hash = _asset("script.js")
    policy = _POLICY.format(style=style_hash, script=script_hash)
    return _environment().get_template(template).render(run=run, style=style, script=script, policy=policy, **values)
