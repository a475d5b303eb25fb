"""Stage 4: READY segments into remote storage, KIP-405 states recorded before and after the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.engine import Engine
from tiersnap.jobs.pipeline import tier_task
from tiersnap.jobs.pipeline.arrow_plans import explode, key_of, pack, positions, spread_target, to_structs
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.verdicts import REMOTE_KEY
from tiersnap.jobs.warehouse import Warehouse
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, new_segment_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import epochs_in_range
from tiersnap.snapshot import tables
from tiersnap.snapshot.gate.readiness import Verdict

# Segments recorded as started in one commit: what a crash can leave to be looked at.
WAVE_SEGMENTS = 5_000
_LEAST_TASK_BYTES = 16 << 20
_MOST_TASK_BYTES = 2 << 30
_DANGLING = [SegmentState.COPY_SEGMENT_STARTED.name, SegmentState.DELETE_SEGMENT_STARTED.name]
_SEGMENT_ROW = pa.struct(list(tables.REMOTE_LOG_SEGMENTS))


@dataclass
class Tiered:
    """What the stage did; `errors` are of segments that wait for the next run, `held` as `resume` says."""

    segments: int = 0
    bytes: int = 0
    finished: int = 0
    cleaned: int = 0
    is_transient: bool = True
    errors: list[str] | None = None
    held: pa.Table | None = None

    def add_errors(self, results: pa.Table) -> None:
        """Remember the failures of one engine call."""
        failed = results.filter(pc.is_valid(results["error"]))
        self.errors = [*(self.errors or []), *failed["error"].to_pylist()]
        self.is_transient = self.is_transient and bool(pc.all(failed["is_transient"]).as_py() in (True, None))


def remote_segments(warehouse: Warehouse) -> pa.Table:
    """The newest state of every attempt, rows of REMOTE_LOG_SEGMENTS with `state_code` and `base_offset`.

    States only move forward, so the greatest is the newest whatever the clocks said.
    """
    rows = warehouse.read("remote_log_segments")
    codes = pc.index_in(rows["state"], value_set=pa.array([state.name for state in SegmentState]))
    rows = rows.append_column("state_code", codes).append_column("base_offset", rows["start_offset"])
    ordered = rows.sort_by([("segment_id", "ascending"), ("state_code", "ascending")])
    ids = ordered["segment_id"].combine_chunks()
    is_last = np.ones(len(ids), np.bool_)
    if len(ids) > 1:
        is_last[:-1] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    return ordered.filter(pa.array(is_last))


def finished(rows: pa.Table) -> pa.Table:
    """Of the newest states, the copies that are complete."""
    return rows.filter(pc.equal(rows["state"], SegmentState.COPY_SEGMENT_FINISHED.name))


def resume(
    engine: Engine,
    warehouse: Warehouse,
    rows: pa.Table,
    partitions: pa.Table,
    store: ObjectStore,
    layout: Layout,
    settings: RunSettings,
) -> Tiered:
    """Finish or clean what a killed run left behind.

    A complete copy behind a listed segment that is not in remote storage is only held: recorded as finished it would
    make readers and brokers skip that segment for good. `tier_ready` takes it when the hole is closed.

    Args:
        rows: as remote_segments gives them.
    """
    dangling = rows.filter(pc.is_in(rows["state"], value_set=pa.array(_DANGLING)))
    tiered = Tiered()
    if dangling.num_rows == 0:
        return tiered
    plan = pack(to_structs(dangling, _SEGMENT_ROW), np.ones(dangling.num_rows), target=50, column="segments")
    results = engine.map("resume", plan, tier_task.ResumeCopies(store, layout), tier_task.COPIED)
    tiered.add_errors(results)
    held = _behind_holes(rows, results, partitions)
    results = results.filter(pc.invert(pc.is_in(results["segment_id"], value_set=held)))
    tiered.held = dangling.filter(pc.is_in(dangling["segment_id"], value_set=held))
    _record(warehouse, dangling, results, settings)
    counts = results["state"].to_pylist()
    tiered.finished = counts.count(SegmentState.COPY_SEGMENT_FINISHED.name)
    tiered.cleaned = counts.count(SegmentState.DELETE_SEGMENT_FINISHED.name)
    return tiered


def _behind_holes(rows: pa.Table, results: pa.Table, partitions: pa.Table) -> pa.Array:
    """Ids of the complete copies with a listed segment before them that is in remote storage neither now nor then."""
    complete = results.filter(pc.equal(results["state"], SegmentState.COPY_SEGMENT_FINISHED.name))["segment_id"]
    found = rows.filter(pc.is_in(rows["segment_id"], value_set=complete.combine_chunks())).sort_by("base_offset")
    copies = found.select(["segment_id", *REMOTE_KEY]).to_pylist()
    wanted = {(row["topic_id"], row["partition"]) for row in copies}
    done = finished(rows)
    there = set(zip(*(done[name].to_pylist() for name in REMOTE_KEY), strict=True))
    there |= {(row["topic_id"], row["partition"], row["base_offset"]) for row in copies}
    holes: dict[tuple[str, int], int] = {}
    for row in (
        partitions.select(["topic_id", "partition", "segments"]).filter(_is_one_of(partitions, wanted)).to_pylist()
    ):
        key = (row["topic_id"], row["partition"])
        bases = [segment["base_offset"] for segment in row["segments"]]
        holes[key] = next((base for base in bases if (*key, base) not in there), bases[-1] if bases else -1)
    held = [
        row["segment_id"]
        for row in copies
        if 0 <= holes.get((row["topic_id"], row["partition"]), -1) < row["base_offset"]
    ]
    return pa.array(held, pa.string())


def _is_one_of(partitions: pa.Table, wanted: set[tuple[str, int]]) -> pa.Array:
    ids = pa.table({"topic_id": [key[0] for key in wanted], "partition": [key[1] for key in wanted]})
    return pc.is_in(key_of(partitions, ("topic_id", "partition")), value_set=key_of(ids, ("topic_id", "partition")))


def tier_ready(
    engine: Engine,
    warehouse: Warehouse,
    partitions: pa.Table,
    readiness: pa.Table,
    snapshots: pa.Table,
    store: ObjectStore,
    layout: Layout,
    settings: RunSettings,
    held: pa.Table | None = None,
) -> Tiered:
    """Copy every READY segment, in waves, each partition's in ascending order.

    Args:
        held: complete copies of an earlier run, of Tiered.held; they are recorded and not copied again.
    """
    copies = _with_held(_copies(partitions, readiness, snapshots, settings), held)
    tiered = Tiered()
    for start in range(0, copies.num_rows, WAVE_SEGMENTS):
        everything = copies.slice(start, WAVE_SEGMENTS)
        wave = everything.filter(pc.invert(everything["is_held"]))
        started = _started(everything, settings)
        warehouse.append("remote_log_segments", started.filter(pc.invert(everything["is_held"])))
        weights = wave["size_bytes"].to_numpy()
        target = spread_target(
            int(weights.sum()), parallelism=engine.parallelism, least=_LEAST_TASK_BYTES, most=_MOST_TASK_BYTES
        )
        plan = pack(to_structs(wave, tier_task.SEGMENT_COPY), weights, target=target, column="segments")
        results = engine.map("tier", plan, tier_task.CopySegments(store, layout), tier_task.COPIED)
        tiered.add_errors(results)
        results = _contiguous(everything, pa.concat_tables([results, _as_results(everything)]))
        _record(warehouse, started, results, settings)
        done = results.filter(pc.equal(results["state"], SegmentState.COPY_SEGMENT_FINISHED.name))
        tiered.segments += done.num_rows
        tiered.bytes += int(pc.sum(done["bytes"]).as_py() or 0)
    return tiered


def _copies(partitions: pa.Table, readiness: pa.Table, snapshots: pa.Table, settings: RunSettings) -> pa.Table:
    """READY segments with all that a bundle is built of, in the order of each partition's log."""
    ready = readiness.filter(pc.equal(readiness["verdict"], str(Verdict.READY)))
    ready = ready.sort_by([(name, "ascending") for name in tables.SEGMENT_KEY])
    listed = explode(partitions, "segments", tables.PARTITION_KEY)
    at = positions(key_of(ready, tables.SEGMENT_KEY), key_of(listed, tables.SEGMENT_KEY))
    owner = positions(key_of(ready, tables.PARTITION_KEY), key_of(partitions, tables.PARTITION_KEY))
    boundary = positions(
        key_of(ready, (*tables.PARTITION_KEY, "next_base_offset")),
        key_of(snapshots, (*tables.PARTITION_KEY, "end_offset")),
    )
    rows = ready.select([*tables.SEGMENT_KEY, "topic_id", "next_base_offset", "size_bytes", "max_timestamp"])
    for name in ("offset_index_bytes", "time_index_bytes", "transaction_index_bytes"):
        rows = rows.append_column(name, listed[name].combine_chunks().take(at))
    for name in ("found", "provenance", "object_key", "crc"):
        rows = rows.append_column(name, snapshots[name].combine_chunks().take(boundary))
    ids = pa.array([new_segment_id() for _ in range(rows.num_rows)], pa.string())
    times = pa.array([settings.now] * rows.num_rows, pa.int64())
    rows = rows.append_column("leader_epochs", partitions["leader_epochs"].combine_chunks().take(owner))
    return rows.append_column("segment_id", ids).append_column("event_timestamp", times)


def _with_held(copies: pa.Table, held: pa.Table | None) -> pa.Table:
    """The copies with `is_held`, true where an earlier run's complete copy, and its segment id, takes the place."""
    if held is None or held.num_rows == 0:
        return copies.append_column("is_held", pa.array([False] * copies.num_rows, pa.bool_()))
    extent = (*REMOTE_KEY, "end_offset", "size_bytes")
    ends = copies.append_column("end_offset", pc.subtract(copies["next_base_offset"], 1))
    sizes = held.append_column("size_bytes", held["segment_size_bytes"])
    at = positions(key_of(ends, extent), key_of(sizes, extent))
    ids = pc.coalesce(held["segment_id"].combine_chunks().take(at), copies["segment_id"].combine_chunks())
    column = copies.schema.get_field_index("segment_id")
    return copies.set_column(column, "segment_id", ids).append_column("is_held", at.is_valid())


def _as_results(wave: pa.Table) -> pa.Table:
    """Rows of COPIED for the copies that were there already."""
    there = wave.filter(wave["is_held"])
    state = SegmentState.COPY_SEGMENT_FINISHED.name
    rows = [
        {"segment_id": segment_id, "state": state, "bytes": 0, "error": None, "is_transient": False}
        for segment_id in there["segment_id"].to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=tier_task.COPIED)


def _started(wave: pa.Table, settings: RunSettings) -> pa.Table:
    """Rows of REMOTE_LOG_SEGMENTS that say a copy begins."""
    rows = []
    for row in wave.to_pylist():
        lineage = [(epoch["epoch"], epoch["start_offset"]) for epoch in row["leader_epochs"] or ()]
        epochs = epochs_in_range(lineage, row["base_offset"], row["next_base_offset"])
        rows.append(
            {
                **{name: row[name] for name in ("topic", "topic_id", "partition", "segment_id", "max_timestamp")},
                "start_offset": row["base_offset"],
                "end_offset": row["next_base_offset"] - 1,
                "segment_size_bytes": row["size_bytes"],
                "leader_epochs": [{"epoch": epoch, "start_offset": start} for epoch, start in epochs],
                "state": SegmentState.COPY_SEGMENT_STARTED.name,
                "event_timestamp": settings.now,
                "run_id": settings.run_id,
            }
        )
    return pa.Table.from_pylist(rows, schema=tables.REMOTE_LOG_SEGMENTS)


def _contiguous(wave: pa.Table, results: pa.Table) -> pa.Table:
    """Results, without the finished copies that lie behind a failed one: a reader would skip the hole for good.

    They stay COPY_SEGMENT_STARTED and the next run finds them complete.
    """
    states = dict(zip(results["segment_id"].to_pylist(), results["state"].to_pylist(), strict=True))
    broken: set[tuple[Any, Any]] = set()
    hidden = []
    columns = (wave[name].to_pylist() for name in ("topic_id", "partition", "segment_id"))
    for topic_id, partition, segment_id in zip(*columns, strict=True):
        if (topic_id, partition) in broken:
            hidden.append(segment_id)
        elif states.get(segment_id) != SegmentState.COPY_SEGMENT_FINISHED.name:
            broken.add((topic_id, partition))
    mask = pc.is_in(results["segment_id"], value_set=pa.array(hidden, pa.string()))
    is_finished = pc.equal(results["state"], SegmentState.COPY_SEGMENT_FINISHED.name)
    return results.filter(pc.invert(pc.and_(mask, is_finished)))


def _record(warehouse: Warehouse, before: pa.Table, results: pa.Table, settings: RunSettings) -> None:
    """Append the states that were reached, each step that KIP-405 knows on the way."""
    rows = {row["segment_id"]: row for row in before.select(tables.REMOTE_LOG_SEGMENTS.names).to_pylist()}
    entered: list[dict[str, Any]] = []
    for result in results.select(["segment_id", "state"]).to_pylist():
        row, state = rows[result["segment_id"]], SegmentState[result["state"]]
        now = {"event_timestamp": settings.now, "run_id": settings.run_id}
        entered.extend({**row, "state": step.name, **now} for step in _steps(SegmentState[row["state"]], state))
    warehouse.append("remote_log_segments", pa.Table.from_pylist(entered, schema=tables.REMOTE_LOG_SEGMENTS))


def _steps(before: SegmentState, after: SegmentState) -> list[SegmentState]:
    """States entered between two of an attempt."""
    if before is after:
        return []
    if after is SegmentState.DELETE_SEGMENT_FINISHED and before is not SegmentState.DELETE_SEGMENT_STARTED:
        return [SegmentState.DELETE_SEGMENT_STARTED, after]
    return [after]
