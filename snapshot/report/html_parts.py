"""Texts, numbers and rectangles for the templates of index.html, and functions that choose the partitions in the page.

The page contains the worst topics and their most important partitions. It loads other topics and partitions on demand:

    details/partitions-<number>.js   at most PIECE partitions, of one topic or of several small ones
    details/topics.js                names and sums of further topics, for the page's filter and sort order
    details/topics-<number>.js       rows of `max_topics` further topics
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import ClassVar
from urllib.parse import quote

from markupsafe import Markup

from tiersnap.snapshot.gate.printed_steps import Step
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.gate.verdict import RANK, WAITING, Verdict
from tiersnap.snapshot.report.changes import PartitionKey
from tiersnap.snapshot.report.disk_forecast import DiskForecast
from tiersnap.snapshot.report.model import (
    Count,
    PagePartition,
    PageTopic,
    Report,
    Span,
    Totals,
)
from tiersnap.snapshot.report.summary import most_worth
from tiersnap.snapshot.report.timeline import Axis, axis_of, worst_last
from tiersnap.snapshot.units import human_bytes, noun_of

# The smallest width of a piece in a bar or a timeline, in per cent.
_MIN_WIDTH = 0.15
_MIN_WIDTH_WAITING = 0.5
# Marks that are closer than this share a label, in per cent.
_LABEL_ROOM = 20.0
# A piece needs this width to show its name, in per cent.
_NAME_ROOM = 15.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of a bar or a timeline.

    Attributes:
        name: CSS class.
        x, width: SVG attributes in per cent.
        label: text on the rectangle; "" if it does not fit.
    """

    name: str
    x: str
    width: str
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line in the timeline. `label` is "" if the label of a neighbour also names this mark."""

    kind: str
    x: str
    title: str
    label: str
    anchor: str


def number(value: int | None) -> str:
    """Return 1234 as '1,234', and None as 'unknown'."""
    return "unknown" if value is None else f"{value:,}"


def time(ms: int) -> str:
    """Return epoch ms as '2026-11-21 12:45:00 UTC'."""
    return moment(ms, "%Y-%m-%d %H:%M:%S UTC")


def day(ms: int | None) -> str:
    """Return epoch ms as '2026-11-21', and None as ''."""
    return "" if ms is None else moment(ms, "%Y-%m-%d")


def moment(ms: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return epoch ms in UTC as '2026-11-21 12:45', or in another strftime format."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        # Producers may give records any timestamp.
        return f"{ms} ms"


def days(count: float) -> str:
    """Return 3.7 as '3 days'. Less than two days is given in hours, and ten years or more as 'more than 10 years'."""
    if count < 2:
        return many(int(count * 24), "hour")
    return many(int(count), "day") if count < 3650 else "more than 10 years"


def difference(size: int) -> str:
    """Return a difference in bytes with its sign, such as '+1.0 GiB', or '0'."""
    if not size:
        return "0"
    return f"{'+' if size > 0 else '−'}{human_bytes(abs(size))}"  # noqa: RUF001 - a minus, not a hyphen


def many(count: int, noun: str) -> str:
    """Return count and noun, such as '1 segment' and '2 segments'."""
    return f"{count:,} {noun_of(count, noun)}"


def share(part: int, whole: int) -> str:
    """Return `part` in per cent of `whole`, rounded.

    '0 %' and '100 %' are exact. Values close to them are '< 1 %' and '> 99 %'.
    """
    if not whole:
        return "0 %"
    percent = (200 * part + whole) // (2 * whole)
    if percent == 0 < part:
        return "< 1 %"
    return "> 99 %" if percent == 100 and part < whole else f"{percent} %"


def examples(report: Report, limit: int = 3) -> dict[Verdict, list[PagePartition]]:
    """Return for each cause up to `limit` partitions that have a timeline, in the page's order."""
    found: dict[Verdict, list[PagePartition]] = {cause.verdict: [] for cause in report.causes}
    for partition in filter(_has_timeline, partitions_of(report)):
        for blocker in partition.blocking:
            if len(found[blocker.verdict]) < limit:
                found[blocker.verdict].append(partition)
    return found


def partitions_of(report: Report) -> Iterator[PagePartition]:
    """Yield all partitions, in the page's order."""
    return chain.from_iterable(topic.partitions for topic in report.topics)


def _has_timeline(partition: PagePartition) -> bool:
    return bool(partition.timeline)


def topic_anchor(topic: str) -> str:
    """Return the id of a topic's element. It needs no escaping in a URL fragment."""
    return "t-" + quote(topic, safe="")


def partition_anchor(partition: PagePartition | PartitionKey, with_log_dir: bool) -> str:
    """Return the id of a partition's element. If `with_log_dir` is True, the id contains the log directory."""
    where = "@" + quote(partition.log_dir, safe="") if with_log_dir else ""
    return f"p-{quote(partition.topic, safe='')}-{partition.partition}{where}"


def headline(report: Report) -> str:
    """Return the most important fact of the report as a sentence."""
    total, topics = report.cluster, report.topics
    if not total.verdicts:
        return "There are no segments"
    if report.replicas_without_producers:
        replicas = many(len(report.replicas_without_producers), "replica")
        return f"{replicas} must not become leader yet, because they lost active producers"
    if total.waiting_segments:
        blocked = sum(bool(topic.waiting_segments) for topic in topics)
        return (
            f"{human_bytes(total.waiting_bytes)} cannot be tiered yet, in {blocked:,} of {many(len(topics), 'topic')}"
        )
    if total.ready_segments:
        return f"Nothing is blocked: {human_bytes(total.ready_bytes)} are ready to be tiered"
    if total.uploaded_segments:
        size = human_bytes(total.uploaded_bytes)
        return f"tiersnap uploaded {size}, and no published record of these segments is known: publish them"
    if total.in_remote_segments:
        size = human_bytes(total.in_remote_bytes)
        return f"Brokers uploaded {size}, but tiersnap did not read the published records of these segments"
    if total.tiered_segments:
        return "Everything that may be tiered is tiered"
    return "No segment needs to be tiered"


def side_by_side(parts: Iterable[tuple[str, int, str]], whole: int) -> list[Piece]:
    """Return pieces that fill the width. Each part is (name, size, title); parts of size 0 are skipped."""
    pieces, x = [], 0.0
    for name, size, title in parts:
        width = 100 * size / max(1, whole)
        if size:
            label = name if width >= _NAME_ROOM else ""
            pieces.append(Piece(name, percent(x), percent(max(width, _MIN_WIDTH)), title, label))
        x += width
    return pieces


# The words of a command that the reader must replace.
_HOLES = frozenset(hole.placeholder.split()[-1] for hole in Hole if hole is not Hole.TIER)


def words_of(step: Step) -> list[tuple[str, bool]]:
    """Return the words of a step's command. A word is paired with True if the reader must replace it."""
    return [(word, not step.is_complete and word in _HOLES) for word in step.command.split(" ")]


def worst_first(totals: Totals) -> dict[Verdict, Count]:
    """Return the verdicts that occur and their counts, worst first."""
    return {verdict: totals.verdicts[verdict] for verdict in sorted(totals.verdicts, key=RANK.__getitem__)}


def bar(totals: Totals) -> list[Piece]:
    """Return a bar of the bytes by verdict, worst first."""
    whole = totals.bytes
    parts = (
        (str(verdict), count.bytes, _title(verdict, count, whole)) for verdict, count in worst_first(totals).items()
    )
    return side_by_side(parts, whole)


def _title(verdict: Verdict, count: Count, whole: int) -> str:
    return f"{verdict} · {human_bytes(count.bytes)} · {share(count.bytes, whole)} · {_segments(count)}"


def disk_bar(disk: DiskForecast) -> list[Piece]:
    """Return a bar of a disk's used, freeable and free bytes."""
    used = max(0, disk.total - disk.free)
    freeable = min(disk.freeable, used)
    sizes = {"kept": used - freeable, "freeable": freeable, "free": disk.free}
    words = {"kept": "stays used", "freeable": "can be freed", "free": "free"}
    parts = ((name, size, f"{words[name]} · {human_bytes(size)}") for name, size in sizes.items())
    return side_by_side(parts, disk.total)


def rectangles(partition: PagePartition) -> Markup:
    """Return the timeline as SVG. It contains only verdicts and numbers. A template would take five times as long."""
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
    """Return the worst verdict of a span, with 'and others' if the span has several."""
    return f"{span.verdict} and others" if span.is_mixed else span.verdict


def offsets(span: Span) -> str:
    """Return 'offsets 1,000 to 1,999', both inclusive. The active segment gives 'from offset 2,000'."""
    if span.end_offset is None:
        return f"from offset {span.base_offset:,}"
    return f"offsets {span.base_offset:,} to {span.end_offset - 1:,}"


def marks(partition: PagePartition) -> list[Mark]:
    """Return the marks of log start, last stable offset and high watermark, from left to right."""
    axis = axis_of(partition)
    stable, watermark = partition.last_stable_offset, partition.high_watermark
    start = partition.log_start_offset
    lines = [("log-start", f"log start offset {start:,}", axis.at(start), "log start")]
    if stable is not None:
        lines.append(("lso", f"last stable offset {stable:,}", axis.at(stable), "LSO"))
    if watermark is not None:
        lines.append(("hw", f"high watermark {watermark:,}", axis.at(watermark), "HW"))
    return list(_labelled(lines))


def _labelled(lines: list[tuple[str, str, float, str]]) -> Iterator[Mark]:
    """Yield the marks. If neighbouring marks have no room for separate labels, the first mark has a label for all."""
    while lines:
        near = [line for line in lines if line[2] - lines[0][2] < _LABEL_ROOM]
        label = _joined(near)
        for kind, title, x, _ in near:
            yield Mark(kind, percent(x), title, label, _anchor_at(x))
            label = ""
        lines = lines[len(near) :]


def _anchor_at(x: float) -> str:
    """Return the SVG text-anchor that keeps a label at x per cent inside the timeline."""
    if x < _LABEL_ROOM / 2:
        return "start"
    return "end" if x > 100 - _LABEL_ROOM / 2 else "middle"


def _joined(lines: list[tuple[str, str, float, str]]) -> str:
    text = lines[0][3]
    for (*_, before, _), (*_, x, label) in pairwise(lines):
        text += f" = {label}" if x == before else f", {label}"
    return text


def _segments(count: Count) -> str:
    return many(count.segments, "segment")


def percent(value: float) -> str:
    """Return 12.345 as '12.35%', for an SVG attribute."""
    return f"{value:.2f}%"


PIECE = 50
INLINE = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A topic in the page's list.

    Attributes:
        number: position of the topic, worst first.
        inline: partitions in the page.
        rest: partitions that are loaded on demand, PIECE per file.
        file: number of the file with the first PIECE partitions of `rest`. The next pieces are in the next files.
    """

    number: int
    topic: PageTopic
    inline: tuple[PagePartition, ...]
    rest: tuple[PagePartition, ...]
    file: int = 0
    page: ClassVar[int] = PIECE

    def pieces(self) -> Iterator[tuple[int, Sequence[PagePartition]]]:
        """Yield the pieces of `rest`, each with the number of its file."""
        for number, start in enumerate(range(0, len(self.rest), PIECE)):
            yield self.file + number, self.rest[start : start + PIECE]


def listed_topics(report: Report, *, inline: int = INLINE, max_topics: int) -> list[Listed]:
    """Return all topics, worst first. Only partitions of the first `max_topics` topics can be in the page."""
    on_page = (topic.partitions for topic in report.topics[:max_topics])
    chosen = set(map(_key_of, most_worth(on_page, lambda partition: bool(partition.blocking))[:inline]))
    return list(_in_files(_listed(number, topic, chosen) for number, topic in enumerate(report.topics)))


def _key_of(partition: PagePartition) -> PartitionKey:
    return PartitionKey(partition.log_dir, partition.topic, partition.partition)


def _listed(number: int, topic: PageTopic, chosen: Container[PartitionKey]) -> Listed:
    """Return a topic. `chosen` are the partitions in the page."""
    inline: list[PagePartition] = []
    rest: list[PagePartition] = []
    for each in topic.partitions:
        if _key_of(each) in chosen:
            inline.append(each)
        else:
            rest.append(each)
    return Listed(number, topic, tuple(inline), tuple(rest))


def _in_files(listed: Iterable[Listed]) -> Iterator[Listed]:
    """Yield the topics with their file numbers. Topics with few partitions share a file."""
    file = held = 0
    for each in listed:
        if held and held + min(len(each.rest), PIECE) > PIECE:
            file, held = file + 1, 0
        yield replace(each, file=file)
        full, left = divmod(held + len(each.rest), PIECE)
        file, held = file + full, left
