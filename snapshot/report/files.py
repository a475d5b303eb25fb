"""The report's machine-readable forms: readiness.json and readiness.csv.

readiness.json, keys in this order, stable within a `schema_version`:

    schema_version, run {RunInfo}, log_dirs [...],
    cluster {worst, level, topics, partitions, TOTALS},
    causes [{verdict, meaning, partitions, segments, bytes, behind_segments, behind_bytes, next_step, commands}]
    snapshots [{snapshot, provenance, compared, segments}]
    compared {VERDICT: files}
    forecast {bytes_per_day, tiered, ready, waiting,
        disks [{mount, total, free, log_dirs, bytes_per_day, freeable, days, days_when_freed}]}
    topics [{topic, worst, level, TOTALS, partitions [{
        log_dir, partition, topic_id, worst, level, TOTALS,
        log_start_offset, last_stable_offset, high_watermark,
        blocking [{verdict, base_offset, segments, bytes, reason, next_step, commands}],
        snapshots [{base_offset, end_offset, segments, snapshot, provenance}]}]}]

TOTALS are: segments, bytes, tiered_segments, tiered_bytes, ready_segments, ready_bytes, waiting_segments,
waiting_bytes, never_tiered_segments, never_tiered_bytes, findings, waiting_since (epoch ms or null), recent_bytes
(written in the 7 days before the run) and verdicts {VERDICT: {segments, bytes}} with the verdicts that occur.
The report's `snapshots` counts each closed segment once, by the snapshot at its end; `compared` is the strict verdict
on a broker's file there. `blocking` is in offset order: its first element is what to clear first. `commands` holds only
those in which nothing is left to fill in. A partition's `snapshots` says what lies at the ends of its segments in
offset order, neighbours of one kind together; it is null where the run did not list the segments one by one.
docs/readiness.schema.json says all this as a JSON schema.

readiness.csv has one row a partition and log directory, worst first, and a column pair for every verdict; its text is
made harmless, see csv_cell.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict

from tiersnap.snapshot.readiness.verdict import DISPLAY_ORDER, MEANING
from tiersnap.snapshot.report.csv_cell import csv_cell
from tiersnap.snapshot.report.forecast import Forecast, forecast
from tiersnap.snapshot.report.model import Blocker, Cause, Count, Held, PartitionReport, Report, TopicReport, Totals
from tiersnap.snapshot.report.next_step import Step, text

SCHEMA_VERSION = 1

CSV_COLUMNS: tuple[str, ...] = (
    "topic",
    "partition",
    "log_dir",
    "topic_id",
    "worst",
    "level",
    "segments",
    "bytes",
    "waiting_segments",
    "waiting_bytes",
    "waiting_since",
    "log_start_offset",
    "last_stable_offset",
    "high_watermark",
    "findings",
    "blocking_verdict",
    "blocking_base_offset",
    "blocking_reason",
    "next_step",
    *(f"{verdict.lower()}_{unit}" for verdict in DISPLAY_ORDER for unit in ("segments", "bytes")),
)

_NOTHING = Count()


def to_json(report: Report) -> dict[str, object]:
    """The whole report as plain data; the keys are in the module's text."""
    return {**_head(report), "topics": [_topic(topic) for topic in report.topics]}


def json_chunks(report: Report) -> Iterator[str]:
    """`to_json` as text, a topic at a time: a fleet's whole report as dictionaries is larger than its rows."""
    yield _dumps(_head(report))[:-1]
    yield ',"topics":['
    for number, topic in enumerate(report.topics):
        yield (",\n" if number else "\n") + _dumps(_topic(topic))
    yield "\n]}\n"


def to_csv(report: Report) -> str:
    """Header and one row a partition; UTF-8 text, LF, quoted where needed."""
    return "".join(csv_chunks(report))


def csv_chunks(report: Report) -> Iterator[str]:
    """`to_csv`, a topic at a time."""
    yield ",".join(CSV_COLUMNS) + "\n"
    for topic in report.topics:
        text_file = io.StringIO()
        writer = csv.writer(text_file, lineterminator="\n")
        writer.writerows(map(csv_cell, _csv_row(partition)) for partition in topic.partitions)
        yield text_file.getvalue()


def totals_as_dict(totals: Totals) -> dict[str, object]:
    """worst, level and TOTALS."""
    groups = {
        "": totals.all,
        "tiered_": totals.tiered,
        "ready_": totals.ready,
        "waiting_": totals.waiting,
        "never_tiered_": totals.never_tiered,
    }
    counts = {f"{prefix}{key}": value for prefix, count in groups.items() for key, value in _count(count).items()}
    return {
        "worst": totals.worst,
        "level": totals.level,
        **counts,
        "findings": totals.findings,
        "waiting_since": totals.waiting_since,
        "recent_bytes": totals.recent_bytes,
        "verdicts": {str(verdict): _count(count) for verdict, count in totals.verdicts.items()},
    }


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _count(count: Count) -> dict[str, int]:
    return {"segments": count.segments, "bytes": count.bytes}


def _head(report: Report) -> dict[str, object]:
    totals = totals_as_dict(report.cluster)
    counts = {"topics": len(report.topics), "partitions": report.partition_count}
    return {
        "schema_version": SCHEMA_VERSION,
        "run": report.run.as_dict(),
        "log_dirs": list(report.log_dirs),
        "cluster": {"worst": totals.pop("worst"), "level": totals.pop("level"), **counts, **totals},
        "causes": [_cause(cause) for cause in report.causes],
        "snapshots": [
            {"snapshot": snapshot, "provenance": provenance or None, "compared": compared or None, "segments": segments}
            for (snapshot, provenance, compared), segments in report.snapshots.items()
        ],
        "compared": {str(verdict): files for verdict, files in report.compared.items()},
        "forecast": _forecast(forecast(report)),
    }


def _forecast(found: Forecast) -> dict[str, object]:
    facts = asdict(found)
    facts["disks"] = [{**facts_of.pop("disk"), **facts_of} for facts_of in facts["disks"]]
    return facts


def _cause(cause: Cause) -> dict[str, object]:
    return {
        "verdict": cause.verdict,
        "meaning": MEANING[cause.verdict],
        "partitions": cause.partitions,
        **_count(cause.count),
        "behind_segments": cause.behind.segments,
        "behind_bytes": cause.behind.bytes,
        **_steps(cause.steps),
    }


def _topic(topic: TopicReport) -> dict[str, object]:
    partitions = [_partition(partition) for partition in topic.partitions]
    return {"topic": topic.topic, **totals_as_dict(topic.totals), "partitions": partitions}


def _partition(partition: PartitionReport) -> dict[str, object]:
    return {
        "log_dir": partition.log_dir,
        "partition": partition.partition,
        "topic_id": partition.topic_id,
        **totals_as_dict(partition.totals),
        "log_start_offset": partition.log_start_offset,
        "last_stable_offset": partition.last_stable_offset,
        "high_watermark": partition.high_watermark,
        "blocking": [_blocker(blocker) for blocker in partition.blockers],
        "snapshots": [_held(held) for held in partition.snapshots] if partition.timeline else None,
    }


def _held(held: Held) -> dict[str, object]:
    return {**asdict(held), "provenance": held.provenance or None}


def _blocker(blocker: Blocker) -> dict[str, object]:
    return {
        "verdict": blocker.verdict,
        "base_offset": blocker.base_offset,
        **_count(blocker.count),
        "reason": blocker.reason,
        **_steps(blocker.steps),
    }


def _steps(steps: tuple[Step, ...]) -> dict[str, object]:
    commands = [step.command for step in steps if step.command and step.is_complete]
    return {"next_step": text(steps), "commands": commands}


def _csv_row(partition: PartitionReport) -> list[object]:
    """Values in the order of CSV_COLUMNS."""
    totals, blocker, waiting = partition.totals, partition.first_blocking, partition.totals.waiting
    row: list[object] = [
        partition.topic,
        partition.partition,
        partition.log_dir,
        partition.topic_id,
        totals.worst,
        totals.level,
        totals.all.segments,
        totals.all.bytes,
        waiting.segments,
        waiting.bytes,
        totals.waiting_since,
        partition.log_start_offset,
        partition.last_stable_offset,
        partition.high_watermark,
        totals.findings,
    ]
    if blocker is None:
        row += [None] * 4
    else:
        row += [blocker.verdict, blocker.base_offset, blocker.reason, text(blocker.steps)]
    for verdict in DISPLAY_ORDER:
        count = totals.verdicts.get(verdict, _NOTHING)
        row += [count.segments, count.bytes]
    return row
