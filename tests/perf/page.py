"""The measured tables of docs/contributing/benchmarks.md, and a picture of the ratios beside the measured rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.perf.measure import Row
from tests.perf.scale import DATA

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contributing" / "benchmarks.md"
_KEPT = DATA / "measured.json"
_PICTURE = DATA / "ratios.svg"
# A table of the page, with the name of the part that measured it.
_PLACE = re.compile(r"<!-- measured: (\w+) -->\n(.*?)<!-- end of measured -->\n", re.DOTALL)


def table(rows: Iterable[Row]) -> str:
    """A Markdown table."""
    lines = ["| what | budget | ours | peer | ratio | |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row.what} | {row.budget} | {row.ours} | {row.peer} | {row.ratio:.2f} | {row.verdict} |" for row in rows
    ]
    return "\n".join(lines)


def kept() -> dict[str, Any]:
    """What was measured so far, by part."""
    return json.loads(_KEPT.read_text()) if _KEPT.exists() else {}


def keep(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Remember what was measured; returns all that is known."""
    known = {**kept(), **parts}
    _KEPT.write_text(json.dumps(known, indent=1))
    return known


def slope(points: Iterable[tuple[int, float]]) -> float:
    """Least squares over the logarithms."""
    counts, seconds = np.log(np.array(list(points), float)).T
    return float(np.polyfit(counts, seconds, 1)[0])


def write(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the page and the picture."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page_with_rows(text, parts), encoding="utf-8")
    _picture([Row(**row) for name in ("decode", "upload", "host") for row in parts[name]["rows"]])


def page_with_rows(text: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with the rows of `parts` in their places. All words outside these places stay."""

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if name not in parts:
            return found[0]
        return f"<!-- measured: {name} -->\n\n{_section(name, parts[name])}\n<!-- end of measured -->\n"

    return _PLACE.sub(place, text)


def _section(name: str, part: Mapping[str, Any]) -> str:
    rows = [Row(**row) for row in part["rows"]]
    head = (
        f"`BENCH={part['scale']} python -m tests.perf.bench {name}`, {part['date']}, on {part['machine']}. "
        f"Load averages over 1 and 5 minutes when it began: {part['load']}."
    )
    paragraphs = [head, table(rows)]
    notes = [f"- {row.what}: {row.note}" for row in rows if row.note]
    if notes:
        paragraphs.append("\n".join(notes))
    return "\n\n".join(paragraphs) + "\n"


def _label(row: Row) -> str:
    """What was measured, and beside which peer where it is said in brackets."""
    _, bracket, peer = row.peer.rpartition("(")
    is_speed = not bracket or "MB/s" in peer
    return row.what if is_speed else f"{row.what}; {peer.rstrip(')')}"


def _picture(rows: list[Row]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tiersnap"
    from matplotlib import pyplot as plt

    figure, (axes, growth) = plt.subplots(2, figsize=(14, 0.3 * len(rows) + 6), height_ratios=[0.3 * len(rows) + 1, 5])
    colours = {True: "#2a7f62", False: "#b3402a", None: "#7a8794"}
    rows = rows[::-1]
    ratios = [row.ratio for row in rows]
    bars = axes.barh(range(len(rows)), ratios, color=[colours[row.is_met] for row in rows])
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    axes.bar_label(bars, labels=[f"{row.ratio:.1f} {row.budget and '(' + row.budget + ')'}" for row in rows], padding=3)
    axes.set_xscale("log")
    axes.set_xlim(0.3, max(ratios) * 4)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times as fast as the peer (green: budget met, red: missed, grey: no budget)")
    axes.spines[["top", "right"]].set_visible(False)
    for name, points in kept().get("growth", {}).items():
        growth.loglog(*zip(*points, strict=True), marker="o", label=f"{name}: slope {slope(points):.2f}")
        growth.legend(loc="center right", bbox_to_anchor=(-0.12, 0.5))
    growth.set_xlabel("how many")
    growth.set_ylabel("seconds")
    growth.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(_PICTURE, metadata={"Date": None})
    plt.close(figure)
