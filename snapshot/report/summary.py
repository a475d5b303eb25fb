"""READINESS rows -> Report: counts rolled up from partition to topic to cluster, causes, and details of the worst."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.readiness.verdict import NEXT_STEP, RANK, SEVERITY, Verdict
from tiersnap.snapshot.report.aggregate import Aggregated, aggregate, of_partitions
from tiersnap.snapshot.report.model import (
    Cause,
    Count,
    Held,
    PartitionReport,
    Report,
    Span,
    TopicReport,
    Totals,
    in_display_order,
)
from tiersnap.snapshot.report.next_step import Place, segment_file, steps
from tiersnap.snapshot.report.partitions import Codes, partitions
from tiersnap.snapshot.report.run_info import RunInfo, without_user
from tiersnap.snapshot.report.timeline import held_runs, spans
from tiersnap.snapshot.report.worth import most_worth

# So many partitions have their segments drawn; a hundred spans each are at most 40 KB.
DEFAULT_DETAILS = 20_000


def summarise(rows: pa.Table | Iterable[pa.RecordBatch], run: RunInfo, *, details: int = DEFAULT_DETAILS) -> Report:
    """Roll up the readiness of every segment.

    Args:
        rows: schema tables.schemas.READINESS, in any order; batches are taken in one at a time, and 49 bytes of each
            row are kept until the end.
        run: what the header says; user information is taken out of its URIs, and out of the log directories.
        details: so many partitions get a timeline and their snapshots, see `most_worth`.

    Raises:
        UsageError: the rows do not follow the schema, or hold verdicts of another version.
    """
    found = aggregate(rows, run.now)
    return summarise_aggregated(found, lambda codes: of_partitions(found.segments, codes), run, details=details)


def summarise_aggregated(
    found: Aggregated, segments_of: Callable[[list[Codes]], pa.Table], run: RunInfo, *, details: int = DEFAULT_DETAILS
) -> Report:
    """`summarise` of rows that were aggregated already, by Arrow or by Spark.

    Args:
        segments_of: given some partitions, what of_partitions gives for them.
    """
    run = run.without_secrets()
    reports = dict(partitions(found, run))
    topics = _by_topic(reports)
    chosen = most_worth([codes for _, codes in topics], lambda codes: bool(reports[codes].blockers))[:details]
    details_of = _details(segments_of(chosen), len(chosen), found.held)
    for codes, (timeline, snapshots) in zip(chosen, details_of, strict=True):
        reports[codes] = replace(reports[codes], timeline=timeline, snapshots=snapshots)
    log_dirs = tuple(sorted({without_user(log_dir) for log_dir in found.log_dirs}))
    return Report(
        run=run,
        cluster=total(totals for totals, _ in topics),
        causes=tuple(_causes([reports[codes] for _, members in topics for codes in members], run)),
        topics=tuple(
            TopicReport(reports[members[0]].topic, totals, tuple(reports[codes] for codes in members))
            for totals, members in topics
        ),
        snapshots=_snapshots(found),
        log_dirs=log_dirs,
    )


def total(parts: Iterable[Totals]) -> Totals:
    """Sum of partitions or topics; the oldest that waits."""
    segments: Counter[Verdict] = Counter()
    size: Counter[Verdict] = Counter()
    findings, recent, waiting_since = 0, 0, None
    for part in parts:
        for verdict, count in part.verdicts.items():
            segments[verdict] += count.segments
            size[verdict] += count.bytes
        findings += part.findings
        recent += part.recent_bytes
        if part.waiting_since is not None:
            waiting_since = part.waiting_since if waiting_since is None else min(waiting_since, part.waiting_since)
    verdicts = {verdict: Count(segments[verdict], size[verdict]) for verdict in segments}
    return Totals(in_display_order(verdicts), findings, waiting_since, recent)


def _badness(totals: Totals) -> tuple[int, int]:
    return len(SEVERITY) if totals.worst is None else RANK[totals.worst], -totals.waiting.bytes


def _by_topic(reports: dict[Codes, PartitionReport]) -> list[tuple[Totals, list[Codes]]]:
    """Topics worst first, each with its partitions worst first: by verdict, by bytes that wait, by name."""
    by_topic: defaultdict[int, list[Codes]] = defaultdict(list)
    for codes, _ in sorted(reports.items(), key=lambda item: (*_badness(item[1].totals), *_name(item[1]))):
        by_topic[codes[0]].append(codes)
    topics = [(total(reports[codes].totals for codes in members), members) for members in by_topic.values()]
    return sorted(topics, key=lambda topic: (*_badness(topic[0]), _name(reports[topic[1][0]])))


def _name(partition: PartitionReport) -> tuple[str, int, str]:
    return partition.topic, partition.partition, partition.log_dir


def _causes(reports: Iterable[PartitionReport], run: RunInfo) -> list[Cause]:
    """What stands in the way; `reports` come worst first, and the first with a cause lends it its segment file."""
    touched: Counter[Verdict] = Counter()
    behind: defaultdict[Verdict, Count] = defaultdict(Count)
    own: defaultdict[Verdict, Count] = defaultdict(Count)
    where: defaultdict[Verdict, dict[str, str]] = defaultdict(dict)
    for partition in reports:
        for blocker in partition.blockers:
            touched[blocker.verdict] += 1
            own[blocker.verdict] += blocker.count
            log_dir = run.collected.get(partition.log_dir, partition.log_dir)
            file = segment_file(log_dir, partition.topic, partition.partition, blocker.base_offset)
            where[blocker.verdict].setdefault(log_dir, file)
        first = partition.first_blocking
        if first is not None and first.verdict is not Verdict.GAP_BEFORE:
            behind[first.verdict] += partition.totals.verdicts.get(Verdict.GAP_BEFORE, Count())
    causes = [
        Cause(
            verdict,
            touched[verdict],
            own[verdict],
            behind[verdict],
            steps(NEXT_STEP[verdict], run, _place(where[verdict], run)),
        )
        for verdict in touched
    ]
    return sorted(causes, key=lambda cause: (-cause.count.bytes - cause.behind.bytes, RANK[cause.verdict]))


def _place(where: dict[str, str], run: RunInfo) -> Place:
    """Of a cause, by log directory the first file that has it; collected ones may be of several hosts: the first."""
    log_dirs = sorted(where) if not run.collected else list(where)[:1]
    return Place(tuple(log_dirs), next(iter(where.values())))


def _details(table: pa.Table, chosen: int, labels: list[str]) -> Iterator[tuple[tuple[Span, ...], tuple[Held, ...]]]:
    """Timeline and snapshots of each chosen partition, in their order."""
    names = ("base_offset", "size_bytes", "verdict", "segments", "held", "wanted")
    base, size, rank, segments, held, wanted = (table[name].to_numpy() for name in names)
    end = table["next_base_offset"].fill_null(-1).to_numpy()
    edges = np.searchsorted(wanted, np.arange(chosen + 1)).tolist()
    for start, stop in pairwise(edges):
        pieces = (each[start:stop] for each in (base, end, size, rank, segments))
        yield (
            spans(*pieces),
            held_runs(base[start:stop], end[start:stop], segments[start:stop], held[start:stop], labels),
        )


def _snapshots(found: Aggregated) -> dict[tuple[str, str, str], int]:
    counted = {
        (row["snapshot"], row["snapshot_provenance"] or "", row["compared"] or ""): row["segments"]
        for row in found.snapshots.to_pylist()
    }
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
