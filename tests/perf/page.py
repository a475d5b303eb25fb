"""docs/contributing/benchmarks.md and its picture, from measured rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.perf.measure import Row
from tests.perf.scale import DATA

DOCS = Path(__file__).resolve().parents[2] / "docs" / "contributing"
_KEPT = DATA / "measured.json"
_TITLES = {
    "decode": "Decode and fold of a log",
    "replay": "Replay and snapshots",
    "memory": "Memory of a worker",
    "upload": "Upload",
    "reading": "What is read and asked for",
    "look": "A look at remote storage with nothing new",
    "host": "The commands of one host",
    "line": "Over a line of 30 ms",
    "idle": "The main job: nothing to do",
    "moved": "The main job: little to do",
    "fleet": "The main job: cost of segments",
    "audit": "The audit of batch headers",
    "profile": "Where the time goes",
}
_HEAD = """# Benchmarks

`make bench` measures tiersnap and a peer in turns and writes this page, missed budgets included.
`BENCH=quick|default|full` chooses sizes; `python -m tests.perf.bench decode` measures one part. Compare rows, not
tables: machines and days differ.

Generated logs have one record a batch, valid CRCs, 1,000 random producers, and a marker in every hundredth batch.
Kafka's replay is `ProducerStateManager` of 4.1.1 with a broker's JVM flags (`tests/perf/KafkaReplay.java`), with a
snapshot at each segment boundary. Warmed up means after one replay of the same log in the same JVM. Files are in the
page cache. Numbers are medians; a ratio is peer time over ours, for memory, CPU and requests ours over the budget; of
bytes decoded, and in the last table, it is a share of the whole. CPU seconds of the main job are those of all its
processes: driver, JVM and workers.

![ratios](benchmarks.svg)
"""


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
    """The page and the picture."""
    text = [_HEAD]
    machines = {str(part["machine"]) for part in parts.values()}
    text.append(f"Machine: {'; '.join(sorted(machines))}.\n")
    for name, part in parts.items():
        rows = [Row(**row) for row in part["rows"]]
        text.append(f"## {_TITLES[name]}\n")
        text.append(
            f"`BENCH={part['scale']} python -m tests.perf.bench {name}`, {part['date']}; load averages over 1 and 5 "
            f"minutes when it began: {part['load']}.\n"
        )
        text.append(table(rows) + "\n")
        notes = [f"- {row.what}: {row.note}" for row in rows if row.note]
        text += ["\n".join(notes) + "\n"] if notes else []
    (DOCS / "benchmarks.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    _picture([Row(**row) for name in ("decode", "upload", "host") for row in parts[name]["rows"]])


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
    figure.savefig(DOCS / "benchmarks.svg", metadata={"Date": None})
    plt.close(figure)
