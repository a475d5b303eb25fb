"""Words, numbers and rectangles for the page's templates, and the partitions that the page holds itself.

The page has the topics that are worst, and of these the partitions that deserve most to be seen. All others are loaded:

    details/partitions-<number>.js   at most PIECE partitions, of one topic or of several that have few
    details/topics.js                names and sums of further topics, by which the page filters and sorts
    details/topics-<number>.js       rows of `max_topics` further topics
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import ClassVar
from urllib.parse import quote

from markupsafe import Markup

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import WAITING, Verdict
from tiersnap.snapshot.report.changes import PartitionKey
from tiersnap.snapshot.report.disk_forecast import DiskForecast
from tiersnap.snapshot.report.model import (
    Count,
    PagePartition,
    PageTopic,
    Report,
    SnapshotsAtEnds,
    Span,
    Totals,
)
from tiersnap.snapshot.report.summary import most_worth
from tiersnap.snapshot.report.timeline import Axis, axis_of, worst_last
from tiersnap.snapshot.units import human_bytes, noun_of

# A sliver of a bar or a timeline must still be seen; per cent of its width.
_MIN_WIDTH = 0.15
_MIN_WIDTH_WAITING = 0.5
# Marks closer than this share a label.
_LABEL_ROOM = 20.0
# Below this a bar's piece has no room for its name.
_NAME_ROOM = 15.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of a bar, a timeline or a plot: its class of the style, and x and width in per cent as SVG has them.

    Attributes:
        label: text on it; "" where it has no room for one.
    """

    name: str
    x: str
    width: str
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the timeline; `label` is "" when a neighbour's says it too."""

    kind: str
    x: str
    title: str
    label: str
    anchor: str


def number(value: int | None) -> str:
    """1234 -> '1,234'; 'unknown' for None."""
    return "unknown" if value is None else f"{value:,}"


def time(ms: int) -> str:
    """Epoch ms -> '2026-11-21 12:45:00 UTC'."""
    return moment(ms, "%Y-%m-%d %H:%M:%S UTC")


def day(ms: int | None) -> str:
    """Epoch ms -> '2026-11-21'."""
    return "" if ms is None else moment(ms, "%Y-%m-%d")


def moment(ms: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """Epoch ms -> '2026-11-21 12:45', or as `form` says."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        # Producers may stamp records with anything.
        return f"{ms} ms"


def days(count: float) -> str:
    """3.7 -> '3 days'; below two days hours are said, above ten years that it is more."""
    if count < 2:
        return many(int(count * 24), "hour")
    return many(int(count), "day") if count < 3650 else "more than 10 years"


def difference(size: int) -> str:
    """Bytes with their sign: '+1.0 GiB', or '0'."""
    if not size:
        return "0"
    return f"{'+' if size > 0 else '−'}{human_bytes(abs(size))}"  # noqa: RUF001 - a minus, not a hyphen


def many(count: int, noun: str) -> str:
    """1, 'segment' -> '1 segment'; 2 -> '2 segments'."""
    return f"{count:,} {noun_of(count, noun)}"


def share(part: int, whole: int) -> str:
    """Whole per cent; 0 and 100 are said only where they are exact."""
    if not whole:
        return "0 %"
    percent = (200 * part + whole) // (2 * whole)
    if percent == 0 < part:
        return "< 1 %"
    return "> 99 %" if percent == 100 and part < whole else f"{percent} %"


def examples(report: Report, limit: int = 3) -> dict[Verdict, list[PagePartition]]:
    """By cause, partitions to look at: those with details, in the page's order."""
    found: dict[Verdict, list[PagePartition]] = {cause.verdict: [] for cause in report.causes}
    for partition in (each for topic in report.topics for each in topic.partitions if each.timeline):
        for blocker in partition.blocking:
            if len(found[blocker.verdict]) < limit:
                found[blocker.verdict].append(partition)
    return found


def topic_anchor(topic: str) -> str:
    """Id of a topic's element; safe in a fragment as it is."""
    return "t-" + quote(topic, safe="")


def partition_anchor(partition: PagePartition | PartitionKey, with_log_dir: bool) -> str:
    """Id of a partition's element; replicas in several log directories need these in it."""
    where = "@" + quote(partition.log_dir, safe="") if with_log_dir else ""
    return f"p-{quote(partition.topic, safe='')}-{partition.partition}{where}"


def headline(report: Report) -> str:
    """The one sentence that somebody who reads nothing else should read."""
    total, topics = report.cluster, report.topics
    if not total.verdicts:
        return "There are no segments"
    if report.forgetful:
        return f"{many(len(report.forgetful), 'replica')} must not lead yet: producers are forgotten there"
    if total.waiting_segments:
        blocked = sum(bool(topic.waiting_segments) for topic in topics)
        return (
            f"{human_bytes(total.waiting_bytes)} cannot be tiered yet, in {blocked:,} of {many(len(topics), 'topic')}"
        )
    if total.ready_segments:
        return f"Nothing stands in the way: {human_bytes(total.ready_bytes)} are ready to be tiered"
    if total.uploaded_segments:
        return f"No record is known of {human_bytes(total.uploaded_bytes)} that tiersnap uploaded: publish them"
    if total.in_remote_segments:
        return f"Whether brokers know {human_bytes(total.in_remote_bytes)} in remote storage was not asked"
    if total.tiered_segments:
        return "Everything that may be tiered is tiered"
    return "Nothing here is for remote storage"


_AT_END = {
    SnapshotVerdict.MATCHES: "identical to the log",
    SnapshotVerdict.EXTENDS: "know more, from before the log begins",
    SnapshotVerdict.SUSPECT: "contradict the log",
    SnapshotVerdict.CORRUPT: "cannot be read",
    SnapshotVerdict.MISSING: "missing",
    SnapshotVerdict.UNVERIFIED: "not compared with the log",
}


def snapshot_counts(report: Report) -> dict[str, int]:
    """Return closed segments by the snapshot at their end, in words, most first; each segment is counted once."""
    counted: Counter[str] = Counter()
    for each in report.snapshots:
        counted[_at_end(each)] += each.segments
    return dict(counted.most_common())


def _at_end(found: SnapshotsAtEnds) -> str:
    is_compared = found.compared is not None or not found.snapshot.is_trusted
    if found.provenance is Provenance.BROKER_UNVERIFIED or (found.provenance is Provenance.BROKER and not is_compared):
        return _AT_END[SnapshotVerdict.UNVERIFIED]
    if found.provenance not in (None, Provenance.BROKER):
        return "computed by tiersnap"
    if found.compared is SnapshotVerdict.SUSPECT and found.snapshot.is_trusted:
        return "differ only where a broker that loads them drops or resets the entry"
    return _AT_END[found.compared or found.snapshot]


def remote_checked(report: Report) -> str:
    """Return how much of what is in remote storage was verified, in a sentence; "" where nothing is there."""
    partitions = [each for topic in report.topics for each in topic.partitions]
    found = {(each.topic, each.partition): each.remote_checked for each in partitions if each.remote_checked}
    if not found:
        total = report.cluster
        is_any = total.tiered_segments or total.uploaded_segments or total.in_remote_segments
        return "Nobody says whether what is in remote storage is right" if is_any else ""
    names = ("segments", "verified", "compared", "encrypted", "unsound")
    segments, verified, compared, encrypted, unsound = (
        sum(getattr(each, name) for each in found.values()) for name in names
    )
    unread = f"; {many(encrypted, 'encrypted segment')} could not be read" if encrypted else ""
    return (
        f"Of {many(segments, 'remote segment')} in {many(len(found), 'partition')} {verified:,} were verified, the "
        f"last {time(max(each.last_at for each in found.values()))}; snapshots of {compared:,} were compared with a "
        f"log; {unsound:,} are not sound{unread}"
    )


def side_by_side(parts: Iterable[tuple[str, int, str]], whole: int) -> list[Piece]:
    """Return (name, size, title) as pieces over the whole width; what has no size is left out."""
    pieces, x = [], 0.0
    for name, size, title in parts:
        width = 100 * size / max(1, whole)
        if size:
            label = name if width >= _NAME_ROOM else ""
            pieces.append(Piece(name, percent(x), percent(max(width, _MIN_WIDTH)), title, label))
        x += width
    return pieces


def bar(totals: Totals) -> list[Piece]:
    """Return bytes by verdict."""
    whole = totals.bytes
    parts = (
        (
            str(verdict),
            count.bytes,
            f"{verdict} · {human_bytes(count.bytes)} · {share(count.bytes, whole)} · {_segments(count)}",
        )
        for verdict, count in totals.verdicts.items()
    )
    return side_by_side(parts, whole)


def disk_bar(disk: DiskForecast) -> list[Piece]:
    """Return what stays used, what can be freed, what is free."""
    used = max(0, disk.total - disk.free)
    freeable = min(disk.freeable, used)
    sizes = {"kept": used - freeable, "freeable": freeable, "free": disk.free}
    words = {"kept": "stays used", "freeable": "can be freed", "free": "free"}
    parts = ((name, size, f"{words[name]} · {human_bytes(size)}") for name, size in sizes.items())
    return side_by_side(parts, disk.total)


def rectangles(partition: PagePartition) -> Markup:
    """The timeline as SVG, of verdicts and numbers alone; put together here, as a template takes five times as long."""
    axis = axis_of(partition)
    return Markup("\n".join(_rectangle(span, axis) for span in worst_last(partition.timeline)))


def _rectangle(span: Span, axis: Axis) -> str:
    left = axis.at(span.base_offset)
    right = axis.at(axis.end if span.end_offset is None else span.end_offset)
    width = max(right - left, _MIN_WIDTH_WAITING if span.verdict in WAITING else _MIN_WIDTH)
    title = f"{span_name(span)} · {offsets(span)} · {_segments(span.count)} · {human_bytes(span.count.bytes)}"
    top, height = (6, 7) if span.is_mixed else (2, 15)
    return (
        f'<rect class="{span.verdict}" x="{percent(min(left, 100 - width))}" y="{top}" width="{percent(width)}" '
        f'height="{height}"><title>{title}</title></rect>'
    )


def span_name(span: Span) -> str:
    """Its verdict, or what the worst of its verdicts is."""
    return f"{span.verdict} and others" if span.is_mixed else span.verdict


def offsets(span: Span) -> str:
    """'offsets 1,000 to 1,999', both inclusive; 'from offset 2,000' for the active segment."""
    if span.end_offset is None:
        return f"from offset {span.base_offset:,}"
    return f"offsets {span.base_offset:,} to {span.end_offset - 1:,}"


def marks(partition: PagePartition) -> list[Mark]:
    """Log start, last stable offset and high watermark on the timeline, from left to right."""
    axis = axis_of(partition)
    stable, watermark = partition.last_stable_offset, partition.high_watermark
    lines: list[tuple[str, str, int, str]] = [
        ("log-start", "log start offset", partition.log_start_offset, "log start")
    ]
    if stable is not None:
        lines.append(("lso", "last stable offset", stable, "LSO"))
    if watermark is not None:
        lines.append(("hw", "high watermark", watermark, "HW"))
    return list(
        _labelled([(kind, f"{title} {offset:,}", axis.at(offset), label) for kind, title, offset, label in lines])
    )


def _labelled(lines: list[tuple[str, str, float, str]]) -> Iterator[Mark]:
    """Neighbours without room for two labels share one, at the first of them."""
    while lines:
        near = [line for line in lines if line[2] - lines[0][2] < _LABEL_ROOM]
        for position, (kind, title, x, _) in enumerate(near):
            label = "" if position else _joined(near)
            anchor = "start" if x < _LABEL_ROOM / 2 else "end" if x > 100 - _LABEL_ROOM / 2 else "middle"
            yield Mark(kind, percent(x), title, label, anchor)
        lines = lines[len(near) :]


def _joined(lines: list[tuple[str, str, float, str]]) -> str:
    text = lines[0][3]
    for (*_, before, _), (*_, x, label) in pairwise(lines):
        text += f" = {label}" if x == before else f", {label}"
    return text


def _segments(count: Count) -> str:
    return many(count.segments, "segment")


def percent(value: float) -> str:
    """12.345 -> '12.35%', as an attribute of SVG."""
    return f"{value:.2f}%"


PIECE = 50
INLINE = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A topic as the page shows it.

    Attributes:
        number: of the topic, worst first.
        inline: partitions that the page holds.
        rest: partitions that are loaded, PIECE by PIECE.
        file: number of the file with the first piece of the rest; the others are in the files that follow.
    """

    number: int
    topic: PageTopic
    inline: tuple[PagePartition, ...]
    rest: tuple[PagePartition, ...]
    file: int = 0
    page: ClassVar[int] = PIECE

    def pieces(self) -> Iterator[tuple[int, Sequence[PagePartition]]]:
        """Yield the rest, piece by piece, each with the number of its file."""
        for number, start in enumerate(range(0, len(self.rest), PIECE)):
            yield self.file + number, self.rest[start : start + PIECE]


def listed_topics(report: Report, *, inline: int = INLINE, max_topics: int) -> list[Listed]:
    """All topics, worst first; only the first `max_topics` hold partitions themselves."""
    on_page = [
        [(number, place) for place in range(len(topic.partitions))]
        for number, topic in enumerate(report.topics[:max_topics])
    ]
    chosen = set(most_worth(on_page, lambda at: bool(report.topics[at[0]].partitions[at[1]].blocking))[:inline])
    listed = [
        Listed(
            number,
            topic,
            tuple(each for place, each in enumerate(topic.partitions) if (number, place) in chosen),
            tuple(each for place, each in enumerate(topic.partitions) if (number, place) not in chosen),
        )
        for number, topic in enumerate(report.topics)
    ]
    return list(_in_files(listed))


def _in_files(listed: Iterable[Listed]) -> Iterator[Listed]:
    """Give each topic the file that its rest begins in: topics with few partitions share one."""
    file = held = 0
    for each in listed:
        if held and held + min(len(each.rest), PIECE) > PIECE:
            file, held = file + 1, 0
        yield replace(each, file=file)
        full, left = divmod(held + len(each.rest), PIECE)
        file, held = file + full, left
