"""Rows of `remote_checks` of one partition -> one row: how much of it was verified. What a Spark task does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.gate.remote_check import CHECKS
from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked, remote_checked
from tiersnap.snapshot.rows import Int32, Rows


@dataclass(frozen=True, slots=True)
class CheckedPartition:
    """A partition, and how much of it was verified."""

    topic: str
    topic_id: str | None
    partition: Int32
    checked: RemoteChecked


_ROWS = Rows(CheckedPartition)
SUMMED = _ROWS.schema


def sum_up(_: object, group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the SUMMED row of a partition, whose checks come in batches."""
    found = remote_checked(CHECKS.read(group))
    yield _ROWS.batch(CheckedPartition(*key, each) for key, each in found.items())


def of_summed(rows: Iterable[Mapping[str, object]]) -> dict[Key, RemoteChecked]:
    """Return SUMMED rows as what `remote_checked` returns of all."""
    found = _ROWS.read_dicts(list(rows))
    return {(each.topic, each.topic_id, each.partition): each.checked for each in found}
