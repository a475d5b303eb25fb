"""Rows of `remote_checks` of one partition -> one row: how much of it was verified. What a Spark task does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.codecs import RowCodec
from tiersnap.snapshot.report.remote_checks import CHECKS, Key, RemoteChecked, remote_checked


@dataclass(frozen=True, slots=True)
class CheckedPartition:
    """A partition, and how much of it was verified."""

    topic: str
    topic_id: str | None
    partition: int
    checked: RemoteChecked


_CODEC = RowCodec(CheckedPartition, parts={"checked": RowCodec(RemoteChecked)})
SUMMED = _CODEC.schema


def sum_up(_: object, group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the SUMMED row of a partition, whose checks come in batches."""
    found = remote_checked(CHECKS.read(group))
    yield _CODEC.batch(CheckedPartition(*key, each) for key, each in found.items())


def of_summed(rows: Iterable[Mapping[str, object]]) -> dict[Key, RemoteChecked]:
    """Return SUMMED rows as what `remote_checked` returns of all."""
    found = map(_CODEC.of_row, rows)
    return {(each.topic, each.topic_id, each.partition): each.checked for each in found}
