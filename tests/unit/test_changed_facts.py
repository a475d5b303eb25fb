"""The table `partitions` gets the facts that changed, and says all that the newest replay found."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.examples import examples
from tests.reference.fleet_run import Ran, Runner
from tests.reference.log_builder import data_batch, offsets_text, write_partition
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.producer_fold import DELTA_DTYPE
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.tables.facts import (
    PARTITIONS,
    Fact,
    FactKind,
    StoredReplay,
    StoredResults,
    fact_batches,
    newest_results,
    news,
    state_batches,
)
from tiersnap.snapshot.tables.schema_parts import PART_DELTAS

pytestmark = pytest.mark.unit

KEY: dict[str, Any] = {"log_dir": "/data", "topic": "orders", "partition": 0}
REPLAY = StoredReplay(facts=PartitionFacts("id", "", "", 0, "", "", 0, 1, 1, 1, ""), state_offset=0)
FOUND = Comparison(SnapshotVerdict.MISSING, "")
SIZES = st.integers(1, 2)  # so that facts change and stay


def snapshot(offset: int, folded_from: int) -> SnapshotAt:
    return SnapshotAt(offset, FOUND, Provenance.COMPUTED, folded_from)


def segment(offset: int, size: int) -> SegmentFacts:
    return SegmentFacts(offset, offset + 1, size, 1, "", True, 1, None, "", False, (), ())


@st.composite
def replays(draw: st.DrawFn) -> tuple[list[Fact], int]:
    """The facts of one replay but its state, and the producers of its state."""
    offsets = st.dictionaries(st.integers(0, 4), SIZES)
    facts = [Fact(**KEY, kind=FactKind.REPLAYED, replay=REPLAY)]
    facts += [Fact(**KEY, kind=FactKind.BOUNDARY, snapshot=snapshot(*each)) for each in draw(offsets).items()]
    facts += [Fact(**KEY, kind=FactKind.SEGMENT, segment=segment(*each)) for each in draw(offsets).items()]
    for number, size in enumerate(draw(st.lists(SIZES, max_size=3))):
        finding = Finding(FindingKind.BAD_CRC, "/data/a.log", size, "")
        facts.append(Fact(**KEY, kind=FactKind.FINDING, part=number, finding=finding))
    return facts, draw(st.sampled_from([0, 1, PART_DELTAS + 1]))


def said(results: StoredResults) -> tuple[object, ...]:
    return results.run, results.replayed, results.snapshots, results.segments, results.findings, results.state.tolist()


def kept(table: pa.Table) -> list[Fact]:
    """The facts that hold, as a replay gets them."""
    found = []
    for each in newest_results(table):
        of_replay = {"run": each.run} | KEY
        found = [Fact(**of_replay, kind=FactKind.REPLAYED, replay=each.replayed)]
        found += [Fact(**of_replay, kind=FactKind.BOUNDARY, snapshot=one) for one in each.snapshots.values()]
        found += [Fact(**of_replay, kind=FactKind.SEGMENT, segment=one) for one in each.segments.values()]
        parts = range(-(-each.state.size // PART_DELTAS))
        found += [Fact(**of_replay, kind=FactKind.STATE, part=part) for part in parts]
        for number, finding in enumerate(each.findings):
            found.append(Fact(**of_replay, kind=FactKind.FINDING, part=number, finding=finding))
    return found


@settings(max_examples=examples(40))
@given(st.lists(replays(), min_size=1, max_size=5))
def test_the_table_says_what_the_last_replay_found(history: list[tuple[list[Fact], int]]) -> None:
    table = PARTITIONS.empty_table()
    for number, (unnumbered, producers) in enumerate(history):
        run = number + 1
        facts, state = [replace(each, run=run) for each in unnumbered], np.zeros(producers, DELTA_DTYPE)
        state["producer_id"] = np.arange(producers) + run
        states = list(state_batches(facts[0], state))
        appended = pa.Table.from_batches([*fact_batches(news(kept(table), facts, len(states), run)), *states])
        # Rows of a table have no order.
        table = pa.concat_tables([appended.take(list(reversed(range(len(appended))))), table])
        whole = pa.Table.from_batches([*fact_batches(facts), *states])
        assert list(map(said, newest_results(table))) == list(map(said, newest_results(whole)))


def test_a_replay_that_finds_the_same_appends_what_tells_of_it_alone() -> None:
    error = Fact(**KEY, kind=FactKind.ERROR)
    before = [
        Fact(**KEY, run=1, kind=FactKind.REPLAYED, replay=REPLAY),
        Fact(**KEY, run=1, kind=FactKind.BOUNDARY, snapshot=snapshot(5, 0)),
        Fact(**KEY, run=1, kind=FactKind.SEGMENT, segment=segment(5, 1)),
        replace(error, run=1),
    ]
    found = [replace(each, run=2) for each in before]
    assert [each.kind for each in news(before, found, 0, 2)] == [FactKind.REPLAYED, FactKind.ERROR]
    ends = list(news([*before, Fact(**KEY, run=1, kind=FactKind.STATE, part=1)], found[:1], 1, 2))
    assert [(each.kind, each.part, each.run) for each in ends if each.has_ended] == [
        (FactKind.BOUNDARY, 0, 2),
        (FactKind.SEGMENT, 0, 2),
        (FactKind.ERROR, 0, 2),
        (FactKind.STATE, 1, 2),
    ]


class GrowingLog:
    """A partition of segments of ten offsets, whose files change alone where it changes."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir

    def write(self, count: int, *, producer: int = 0, log_start: int = 0) -> None:
        """Write `count` segments, of which retention deletes those below `log_start`."""
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.log_dir.glob("*/*")}
        for path in before:
            path.unlink()
        batches = {
            base: [data_batch(base, 5, producer, 0, base), data_batch(base + 5, 5, 9, 0, base)]
            for base in range(0, 10 * count, 10)
        }
        folder = write_partition(self.log_dir, "orders", 0, batches, high_watermark=10 * count, indexes=True)
        for path in folder.iterdir():
            if path.name[:20].isdecimal() and int(path.name[:20]) < log_start:
                path.unlink()
            elif path in before and before[path][0] == path.read_bytes():
                os.utime(path, ns=(before[path][1],) * 2)
        (self.log_dir / "log-start-offset-checkpoint").write_text(offsets_text({("orders", 0): log_start}))


def rows_of(ran: Ran) -> Counter[str]:
    """The rows of the offsets that a run appended to `partitions`."""
    return Counter(row["kind"] for row in ran.appended if row["kind"] in ("BOUNDARY", "SEGMENT"))


def facts(runner: Runner, log: GrowingLog) -> list[dict[str, Any]]:
    """The facts that hold, without the number of the run that found them."""
    found = runner.tables.facts((str(log.log_dir), "orders", 0))
    return sorted(({**row, "run": 0} for row in found), key=repr)


def test_a_partition_that_grows_appends_the_facts_that_changed(tmp_path: Path) -> None:
    log, segments = GrowingLog(tmp_path / "logs"), 41
    log.write(segments)
    runner = Runner(tmp_path / "kept", log.log_dir)
    assert rows_of(runner(apply=False)) == {"BOUNDARY": segments, "SEGMENT": segments}
    log.write(segments + 1)
    grown = rows_of(runner(apply=False))
    assert grown["SEGMENT"] == 2, "the one that was active, and the new one"
    assert grown["BOUNDARY"] <= 3
    assert runner(apply=False).commits == 0
    changes = {
        "truncated": {"count": segments - 3},
        "another lineage": {"count": segments - 3, "producer": 7},
        "grown again": {"count": segments, "producer": 7},
        "retention": {"count": segments + 1, "log_start": 40},
    }
    for number, (change, how) in enumerate(changes.items()):
        log.write(**how)
        assert runner(apply=False).appended, change
        first = Runner(tmp_path / f"first{number}", log.log_dir)
        first(apply=False)
        assert facts(runner, log) == facts(first, log), change
        assert runner(apply=False).commits == 0, change
    tables = runner.tables.partitions
    assert len(tables) < 4 * 2 * segments, "five of the replays found something new, and two of them everywhere"
