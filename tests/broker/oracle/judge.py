"""Whether what a broker tiered is what Kafka's own fold gives."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.broker.harness.damage import segment_bases
from tests.broker.harness.scenarios import TieringOutcome
from tests.broker.oracle.fold import fold_oracle
from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file

Entries = list[tuple[int, ...]]


def entries(data: bytes) -> Entries:
    """Entries in ascending producer id (the order in a file is that of a hash map and means nothing)."""
    return [tuple(entry) for entry in snapshot_file.decode(data).tolist()]


def wrongly_tiered(outcome: TieringOutcome, folder: Path, out: Path) -> tuple[int, ...]:
    """Base offsets of the tiered segments whose snapshot is corrupt or not the state that Kafka folds from `folder`.

    `folder` still holds all its segments; `out` is where the oracle may write. The state that goes with a segment is
    the one at the base offset of the next.
    """
    right = fold_oracle([folder], out)[folder.name]
    bases = segment_bases(folder)
    following = dict(itertools.pairwise(bases))
    return tuple(
        base
        for base, found in outcome.tiered_snapshots.items()
        if _entries_or_none(found) != entries(right[following[base]])
    )


def _entries_or_none(data: bytes) -> Entries | None:
    try:
        return entries(data)
    except CorruptSnapshotError:
        return None
