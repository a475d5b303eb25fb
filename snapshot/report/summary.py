"""Construction of a Report from READINESS rows: totals, causes, timelines and snapshots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from operator import itemgetter
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import MEANING, RANK, SEVERITY, Verdict
from tiersnap.snapshot.report.aggregate import Aggregated, aggregate, of_partitions
from tiersnap.snapshot.report.blockers import PageCause, cleared_by
from tiersnap.snapshot.report.model import (
    ClusterTotals,
    Count,
    Held,
    PagePartition,
    PageTopic,
    Report,
    SnapshotsAtEnds,
    Span,
    Totals,
    sum_of,
)
from tiersnap.snapshot.report.partitions import Codes, forecast, partitions
from tiersnap.snapshot.report.run_info import RunInfo, without_user
from tiersnap.snapshot.report.step_place import place_of, segment_file
from tiersnap.snapshot.report.timeline import held_runs, spans

T = TypeVar("T")
# Number of partitions with a timeline. A hundred spans have at most 40 KB.
DEFAULT_DETAILS = 20_000


def summarise(rows: pa.Table | Iterable[pa.RecordBatch], run: RunInfo, *, details: int = DEFAULT_DETAILS) -> Report:
    """Return the report on all segments.

    Args:
        rows: rows of READINESS in any order. Batches are read one by one, and 49 bytes per row stay in memory.
        run: run of the report. User information is removed from its URIs and from the log directories.
        details: number of partitions for which the report has a timeline and snapshots; see `most_worth`.

    Raises:
        UsageError: the rows do not have the schema, or have unknown verdicts.
    """
    found = aggregate(rows, run.now)
    return summarise_aggregated(found, lambda codes: of_partitions(found.segments, codes), run, details=details)


def summarise_aggregated(
    found: Aggregated, segments_of: Callable[[list[Codes]], pa.Table], run: RunInfo, *, details: int = DEFAULT_DETAILS
) -> Report:
    """Return the report on segments that Arrow or Spark aggregated.

    Args:
        segments_of: function that returns the segments of some partitions, in the form of `of_partitions`.
    """
    run = run.without_secrets()
    reports = dict(partitions(found, run))
    by_topic = _by_topic(reports)
    chosen = most_worth([codes for _, codes in by_topic], lambda codes: bool(reports[codes].blocking))[:details]
    _add_details(reports, chosen, segments_of(chosen), found)
    topics = tuple(_topic(totals, list(map(reports.__getitem__, members))) for totals, members in by_topic)
    cluster, at_ends = sum_of(topics), _snapshots(found)
    by_topics = chain.from_iterable(topic.partitions for topic in topics)
    return Report(
        run=run,
        log_dirs=tuple(sorted(set(map(without_user, found.log_dirs)))),
        cluster=ClusterTotals(**vars(cluster), topics=len(topics), partitions=len(reports)),
        causes=tuple(_causes(by_topics, run)),
        snapshots=at_ends,
        compared=_compared(at_ends),
        forecast=forecast(cluster, reports.values(), run.disks),
        topics=topics,
    )


def _add_details(
    reports: dict[Codes, PagePartition], chosen: list[Codes], segments: pa.Table, found: Aggregated
) -> None:
    """Add timelines and snapshots to the chosen partitions."""
    details_of = _details(segments, len(chosen), found.held)
    for codes, (timeline, snapshots) in zip(chosen, details_of, strict=True):
        reports[codes] = replace(reports[codes], timeline=timeline, snapshots=snapshots)


def _badness(totals: Totals) -> tuple[int, int]:
    return len(SEVERITY) if totals.worst is None else RANK[totals.worst], -totals.waiting_bytes


def _by_topic(reports: dict[Codes, PagePartition]) -> list[tuple[Totals, list[Codes]]]:
    """Return the topics and their partitions, both sorted by worst verdict, waiting bytes and name."""
    by_topic: defaultdict[int, list[Codes]] = defaultdict(list)
    for codes, _ in sorted(reports.items(), key=lambda item: (*_badness(item[1]), *_name(item[1]))):
        by_topic[codes[0]].append(codes)
    topics = [(sum_of(map(reports.__getitem__, members)), members) for members in by_topic.values()]
    return sorted(topics, key=lambda topic: (*_badness(topic[0]), _name(reports[topic[1][0]])))


def _name(partition: PagePartition) -> tuple[str, int, str]:
    return partition.topic, partition.partition, partition.log_dir


def _topic(totals: Totals, members: list[PagePartition]) -> PageTopic:
    return PageTopic(**vars(totals), topic=members[0].topic, partitions=tuple(members))


def _causes(reports: Iterable[PagePartition], run: RunInfo) -> list[PageCause]:
    """Return the causes, worst first.

    Args:
        reports: partitions, worst first. The command of a cause names the segment file of the first partition.
    """
    touched: Counter[Verdict] = Counter()
    behind: defaultdict[Verdict, Count] = defaultdict(Count)
    own: defaultdict[Verdict, Count] = defaultdict(Count)
    where: defaultdict[Verdict, dict[str, str]] = defaultdict(dict)
    for partition in reports:
        for blocker in partition.blocking:
            touched[blocker.verdict] += 1
            own[blocker.verdict] += Count(blocker.segments, blocker.bytes)
            log_dir = run.collected.get(partition.log_dir, partition.log_dir)
            file = segment_file(log_dir, partition.topic, partition.partition, blocker.base_offset)
            where[blocker.verdict].setdefault(log_dir, file)
        for first in partition.blocking[:1]:
            if first.verdict is not Verdict.GAP_BEFORE:
                behind[first.verdict] += partition.verdicts.get(Verdict.GAP_BEFORE, Count())
    causes = [
        _cause(verdict, touched[verdict], own[verdict], behind[verdict], _place(where[verdict], run))
        for verdict in touched
    ]
    return sorted(causes, key=lambda cause: RANK[cause.verdict])


def _cause(verdict: Verdict, partitions: int, own: Count, behind: Count, place: Place) -> PageCause:
    return PageCause(
        verdict=verdict,
        meaning=MEANING[verdict],
        partitions=partitions,
        segments=own.segments,
        bytes=own.bytes,
        behind_segments=behind.segments,
        behind_bytes=behind.bytes,
        **cleared_by(place.steps(verdict)),
    )


def _place(where: dict[str, str], run: RunInfo) -> Place:
    """Return the place for a cause's steps.

    A step is for one host, and collected folders may come from several hosts. So only the first folder is used.

    Args:
        where: first segment file with the cause, by log directory.
    """
    log_dirs = list(where)[:1] if run.collected else sorted(where)
    return place_of(run, tuple(log_dirs)).beside(next(iter(where.values())))


def _details(table: pa.Table, chosen: int, labels: list[str]) -> Iterator[tuple[tuple[Span, ...], tuple[Held, ...]]]:
    """Yield the timeline and the snapshots of each chosen partition.

    Args:
        table: the result of `of_partitions`; its order is kept.
        chosen: number of chosen partitions.
        labels: see `held_runs`.
    """
    names = ("base_offset", "size_bytes", "verdict", "segments", "held", "wanted")
    base, size, rank, segments, held, wanted = (table[name].to_numpy() for name in names)
    end = table["next_base_offset"].fill_null(pa.scalar(-1, pa.int64())).to_numpy()
    edges = np.searchsorted(wanted, np.arange(chosen + 1)).tolist()
    for start, stop in pairwise(edges):
        pieces = (each[start:stop] for each in (base, end, size, rank, segments))
        yield (
            spans(*pieces),
            held_runs(base[start:stop], end[start:stop], segments[start:stop], held[start:stop], labels),
        )


def _snapshots(found: Aggregated) -> tuple[SnapshotsAtEnds, ...]:
    rows = []
    for row in found.snapshots.to_pylist():
        provenance, compared = row["snapshot_provenance"], row["compared"]
        rows.append(
            SnapshotsAtEnds(
                SnapshotVerdict(row["snapshot"]),
                Provenance(provenance) if provenance else None,
                SnapshotVerdict(compared) if compared else None,
                row["segments"],
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.segments, row.snapshot, row.provenance or "", row.compared or "")))


def _compared(found: Iterable[SnapshotsAtEnds]) -> dict[SnapshotVerdict, int]:
    counted: Counter[SnapshotVerdict] = Counter()
    for each in found:
        if each.compared is not None:
            counted[each.compared] += each.segments
    return {verdict: counted[verdict] for verdict in SnapshotVerdict if counted[verdict]}


def most_worth(topics: Iterable[Sequence[T]], is_blocked: Callable[[T], bool]) -> list[T]:
    """Return partitions in the order of display. Blocked partitions are first, and the topics take turns.

    So a topic with thousands of blocked partitions leaves room for other topics. The topics and their partitions
    must be given worst first.
    """
    keyed: list[tuple[tuple[bool, int, int], T]] = []
    for place, members in enumerate(topics):
        for turn, partition in enumerate(members):
            keyed.append(((not is_blocked(partition), turn, place), partition))
    return [partition for _, partition in sorted(keyed, key=itemgetter(0))]
