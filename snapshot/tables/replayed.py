"""Facts of `partitions`, as the newest replay of each partition left them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.snapshot.tables.facts import flat
from tiersnap.snapshot.tables.schemas import PARTITION_KEY


def newest_replays(facts: pa.Table) -> pa.Table:
    """Rows of the newest replay of each partition, partition by partition."""
    key = list(PARTITION_KEY)
    # Numbers of rows are joined and not the rows: Arrow joins no lists.
    numbered = facts.select([*key, "run"]).append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    newest = facts.group_by(key).aggregate([("run", "max")])
    joined = numbered.join(newest, keys=key, join_type="inner")
    kept = joined.filter(pc.equal(joined["run"], joined["run_max"]))
    return facts.take(kept.sort_by([(name, "ascending") for name in (*key, "number")])["number"])


def by_partition(facts: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows of each partition as `facts.flat` gives them; those of one must lie side by side."""
    current: list[dict[str, Any]] = []
    for batch in facts.to_batches(max_chunksize=8192):
        for row in batch.to_pylist():
            if current and any(row[name] != current[0][name] for name in PARTITION_KEY):
                yield current
                current = []
            current.append(flat(row))
    if current:
        yield current
