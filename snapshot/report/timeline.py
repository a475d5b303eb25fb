"""The timeline of a partition's segments: spans, and their positions on the x axis.

The x axis is linear in offsets, from the log start offset (0 per cent) to the largest known offset (100 per cent).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import RANK, SEVERITY
from tiersnap.snapshot.report.model import Count, Held, PagePartition, Span

# Readers cannot distinguish more rectangles, and 200 partitions with more would make the page large.
MAX_SPANS = 60
# If a partition has more segments, neighbours of equal verdict are merged. A fleet has 50 segments per partition.
MAX_SINGLE = 24
# The active segment gets some width, because it grows.
_ACTIVE_SHARE = 0.03


def spans(
    base: np.ndarray,
    end: np.ndarray,
    size: np.ndarray,
    rank: np.ndarray,
    segments: np.ndarray,
    *,
    max_spans: int = MAX_SPANS,
) -> tuple[Span, ...]:
    """Return the spans of a partition's segments, in offset order.

    If there are at most MAX_SINGLE segments, each has its own span. If there are more, neighbours with the same verdict
    are merged. If too many spans remain, the axis is divided into `max_spans` pieces, and spans that begin in the same
    piece are merged.

    Args:
        base: int64, base offsets, ascending.
        end: int64, next base offsets (exclusive); -1 for the active segment.
        size: int64, bytes.
        rank: ranks of the verdicts in SEVERITY.
        segments: number of segments of each item. An item may stand for several neighbouring segments with the same
            verdict.
        max_spans: largest number of spans, at least 1.
    """
    if not base.size:
        return ()
    starts = np.arange(base.size)
    if base.size > min(max_spans, MAX_SINGLE):
        starts = _starts_of(rank)
    if starts.size > max_spans:
        # Float, because a product of offsets may overflow int64.
        share = (base[starts].astype(np.float64) - float(base[0])) / max(1.0, float(base[-1]) - float(base[0]))
        starts = starts[_starts_of(np.minimum((share * max_spans).astype(np.int64), max_spans - 1))]
    stops = np.append(starts[1:], base.size)
    columns = zip(
        np.add.reduceat(segments, starts).tolist(),
        base[starts].tolist(),
        end[stops - 1].tolist(),
        np.add.reduceat(size, starts).tolist(),
        np.minimum.reduceat(rank, starts).tolist(),
        np.maximum.reduceat(rank, starts).tolist(),
        strict=True,
    )
    found = []
    for count, first, last, total, worst, best in columns:
        end_offset = None if last < 0 else last
        found.append(Span(SEVERITY[worst], first, end_offset, Count(count, total), is_mixed=worst != best))
    return tuple(found)


def held_runs(
    base: np.ndarray, end: np.ndarray, segments: np.ndarray, held: np.ndarray, labels: list[str]
) -> tuple[Held, ...]:
    """Return the snapshots at the ends of a partition's segments. Neighbours with equal snapshots are merged.

    Args:
        base, end, segments: see `spans`.
        held: positions in `labels`. A label is a verdict, which a space and a provenance may follow.
    """
    if not base.size:
        return ()
    starts = _starts_of(held)
    stops = np.append(starts[1:], base.size)
    found = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        snapshot, _, provenance = labels[held[start]].partition(" ")
        last = int(end[stop - 1])
        count = int(segments[start:stop].sum())
        source = Provenance(provenance) if provenance else None
        found.append(Held(int(base[start]), None if last < 0 else last, count, SnapshotVerdict(snapshot), source))
    return tuple(found)


def _starts_of(values: np.ndarray) -> np.ndarray:
    """Return the positions at which a new value begins."""
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


def runs(partition: PagePartition) -> list[Span]:
    """Return the spans for the timeline's table, which screen readers use.

    Neighbours with the same verdict are merged.
    """
    found: list[Span] = []
    for span in partition.timeline:
        if found and _is_one_verdict(found[-1], span):
            last = found[-1]
            found[-1] = Span(span.verdict, last.base_offset, span.end_offset, last.count + span.count)
        else:
            found.append(span)
    return found


def _is_one_verdict(first: Span, second: Span) -> bool:
    return first.verdict is second.verdict and not first.is_mixed and not second.is_mixed


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of offsets, `start` inclusive and `end` exclusive, as a line of 100 per cent."""

    start: int
    end: int

    def at(self, offset: int) -> float:
        """Return the position of an offset, in per cent from the left, 0 to 100."""
        return min(100.0, max(0.0, 100.0 * (offset - self.start) / (self.end - self.start)))


def axis_of(partition: PagePartition) -> Axis:
    """Return the axis that contains all segments and marks of a partition."""
    start = min([partition.log_start_offset, *(span.base_offset for span in partition.timeline[:1])])
    end = max(_offsets(partition))
    if partition.timeline and partition.timeline[-1].end_offset is None:
        active = partition.timeline[-1].base_offset
        end = max(end, active + int((active - start) * _ACTIVE_SHARE))
    return Axis(start, max(end, start + 1))


def _offsets(partition: PagePartition) -> Iterator[int]:
    """Yield the known offsets of a partition."""
    yield partition.log_start_offset
    yield partition.last_stable_offset or 0
    yield partition.high_watermark or 0
    for span in partition.timeline:
        yield span.base_offset
        if span.end_offset is not None:
            yield span.end_offset


def worst_last(timeline: tuple[Span, ...]) -> list[Span]:
    """Return the spans in drawing order. A worse span is drawn later, on top of its neighbours."""
    return sorted(timeline, key=lambda span: (-RANK[span.verdict], span.base_offset))
