"""The files readiness.json and readiness.csv of a report.

readiness.json is a ReadinessDocument. Its form is stable within a `schema_version`; docs/readiness.schema.json is its
JSON schema.

readiness.csv has one row per partition and log directory, worst first, and two columns per verdict. The file is safe in
terminals and in Excel: control characters are escaped, and a text that a spreadsheet would read as a formula begins
with an apostrophe. Programs must remove that apostrophe. Numbers are not changed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from tiersnap.snapshot.gate.verdict import DISPLAY_ORDER
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.report.model import Count, PagePartition, Report, ReportHead, TopicReport
from tiersnap.snapshot.units import escaped

# Columns that are fields of PagePartition.
_FIELDS = (
    *("topic", "partition", "log_dir", "topic_id", "worst", "level", "segments", "bytes"),
    *("waiting_segments", "waiting_bytes", "waiting_since"),
    *("log_start_offset", "last_stable_offset", "high_watermark", "findings"),
)
CSV_COLUMNS: tuple[str, ...] = (
    *_FIELDS,
    *("blocking_verdict", "blocking_base_offset", "blocking_reason", "next_step"),
    *(f"{verdict.lower()}_{unit}" for verdict in DISPLAY_ORDER for unit in ("segments", "bytes")),
)
_BEGINS_FORMULA = tuple("=+-@")
_MOST_SHOWN = 200  # characters of an error
T = TypeVar("T")


def json_chunks(report: Report) -> Iterator[str]:
    """Yield readiness.json, one topic at a time, because the text of a whole fleet may not fit into memory."""
    yield _json(report, ReportHead)[:-1]
    yield ',"topics":['
    for number, topic in enumerate(report.topics):
        yield (",\n" if number else "\n") + _json(topic, TopicReport)
    yield "\n]}\n"


def read_json(text: bytes, kind: type[T], name: str) -> T:
    """Return the content of a report's file.

    Args:
        kind: type of the content. It may have fewer fields than the file.
        name: name of the content, for errors.

    Raises:
        ValueError: the text is not JSON of this version.
    """
    try:
        return decoder(kind).decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no {name}: {error}"[:_MOST_SHOWN]) from error


def _json(value: object, kind: type) -> str:
    """Return JSON with the fields of `kind`. `value` may have more fields."""
    return msgspec.json.encode(msgspec.convert(value, kind, from_attributes=True)).decode()


def csv_chunks(report: Report) -> Iterator[str]:
    """Yield readiness.csv, one topic at a time: a header, and one row per partition. Lines end with LF."""
    yield ",".join(CSV_COLUMNS) + "\n"
    for topic in report.topics:
        text_file = io.StringIO()
        writer = csv.writer(text_file, lineterminator="\n")
        writer.writerows(map(csv_cell, _csv_row(partition)) for partition in topic.partitions)
        yield text_file.getvalue()


def _csv_row(partition: PagePartition) -> Iterator[object]:
    """Yield the values of one partition, in the order of CSV_COLUMNS."""
    for name in _FIELDS:
        yield getattr(partition, name)
    first = next(iter(partition.blocking), None)
    for name in ("verdict", "base_offset", "reason", "next_step"):
        yield getattr(first, name, None)
    for verdict in DISPLAY_ORDER:
        count = partition.verdicts.get(verdict, Count())
        yield from (count.segments, count.bytes)


def csv_cell(value: object) -> object:
    """Return a value for a CSV cell. A text is escaped, and an apostrophe precedes a formula."""
    if not isinstance(value, str):
        return value
    text = escaped(value)
    # Spreadsheets ignore white space before a formula.
    if text.lstrip().startswith(_BEGINS_FORMULA):
        return f"'{text}"
    return text
