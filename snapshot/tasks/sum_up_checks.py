"""Rows of `remote_checks` of one partition -> one row: how much of it was verified. What a Spark task does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from tiersnap.snapshot.codecs import decoder
from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked, remote_checked

_NAMES = ("topic", "topic_id", "partition", "checked")
SUMMED = pa.schema([pa.field(name, pa.int32() if name == "partition" else pa.string()) for name in _NAMES])


def sum_up(_: object, group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the SUMMED row of a partition, whose rows come in batches; `checked` is RemoteChecked as JSON."""
    found = remote_checked(row for batch in group for row in batch.to_pylist())
    rows = [(*key, msgspec.json.encode(each).decode()) for key, each in found.items()]
    yield pa.RecordBatch.from_pylist([dict(zip(_NAMES, row, strict=True)) for row in rows], schema=SUMMED)


def of_summed(rows: Iterable[Mapping[str, Any]]) -> dict[Key, RemoteChecked]:
    """Return SUMMED rows as what `remote_checked` returns of all."""
    decode = decoder(RemoteChecked).decode
    return {(row["topic"], row["topic_id"], row["partition"]): decode(row["checked"]) for row in rows}
