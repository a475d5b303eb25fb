"""The report's machine-readable forms: readiness.json and readiness.csv.

readiness.json is a ReadinessDocument, stable within a `schema_version`; docs/readiness.schema.json is its JSON schema.

readiness.csv has one row per partition and log directory, worst first, and two columns for every verdict. It is safe to
show on terminals and in Excel: no text moves the cursor, and none is a formula. A text that looks like a formula to a
spreadsheet gets an apostrophe in front, which programs must remove. Numbers stay numbers.
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

# Fields of a partition.
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
    """Yield readiness.json, a topic at a time: a fleet's whole report as text is larger than its rows."""
    yield _json(report, ReportHead)[:-1]
    yield ',"topics":['
    for number, topic in enumerate(report.topics):
        yield (",\n" if number else "\n") + _json(topic, TopicReport)
    yield "\n]}\n"


def read_json(text: bytes, kind: type[T], name: str) -> T:
    """Return a file of a report as `kind`, which may have fewer fields.

    Args:
        name: of the kind, for errors.

    Raises:
        ValueError: it has another version's form.
    """
    try:
        return decoder(kind).decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no {name}: {error}"[:_MOST_SHOWN]) from error


def _json(value: object, kind: type) -> str:
    """Return JSON with the fields of `kind`, from an object that may have more."""
    return msgspec.json.encode(msgspec.convert(value, kind, from_attributes=True)).decode()


def csv_chunks(report: Report) -> Iterator[str]:
    """Yield readiness.csv, a topic at a time: a header and one row per partition; UTF-8, LF, quoted if needed."""
    yield ",".join(CSV_COLUMNS) + "\n"
    for topic in report.topics:
        text_file = io.StringIO()
        writer = csv.writer(text_file, lineterminator="\n")
        writer.writerows(map(csv_cell, _csv_row(partition)) for partition in topic.partitions)
        yield text_file.getvalue()


def _csv_row(partition: PagePartition) -> Iterator[object]:
    """Yield values in the order of CSV_COLUMNS."""
    for name in _FIELDS:
        yield getattr(partition, name)
    first = next(iter(partition.blocking), None)
    for name in ("verdict", "base_offset", "reason", "next_step"):
        yield getattr(first, name, None)
    for verdict in DISPLAY_ORDER:
        count = partition.verdicts.get(verdict, Count())
        yield from (count.segments, count.bytes)


def csv_cell(value: object) -> object:
    """Return the value; a text is made harmless."""
    if not isinstance(value, str):
        return value
    text = escaped(value)
    # A spreadsheet also takes text after white space for a formula.
    return f"'{text}" if text.lstrip().startswith(_BEGINS_FORMULA) else text
