"""Real segments, and the indexes that Kafka's own recovery makes of them (tests/golden/recover-4.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.reference.walked import walked

TESTS = Path(__file__).parent.parent
DATA = TESTS / "data"


@dataclass(frozen=True)
class Indexes:
    """File bytes, empty where there is no file."""

    offset_index: bytes
    time_index: bytes
    transaction_index: bytes


def recovered() -> dict[str, Indexes]:
    """Indexes by path of the segment below tests/data, in offset order within a partition."""
    lines = (TESTS / "golden/recover-4.1.1/indexes.tsv").read_text().splitlines()
    rows = (line.split("\t") for line in lines)
    return {path: Indexes(*(b"" if text == "-" else bytes.fromhex(text) for text in texts)) for path, *texts in rows}


def has_legacy_entries(path: str) -> bool:
    """Whether the segment holds entries of magic 0 or 1."""
    return "magic" in path


def rows_of(segment: bytes) -> np.ndarray:
    """Decoded batches of a sound segment."""
    rows, position, _, _ = walked(segment)
    assert position == len(segment)
    return rows
