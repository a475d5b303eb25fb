"""Stage 3: carry the partitions that changed; the others keep what the last run said of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.engine import Engine, suited
from tiersnap.jobs.pipeline.arrow_plans import explode, key_of, nest, pack, positions, spread_target, to_structs
from tiersnap.jobs.pipeline.decoding import Decoded
from tiersnap.jobs.pipeline.listing import Listing
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.verdicts import REMOTE_KEY, keep_verdicts
from tiersnap.jobs.warehouse import Warehouse, after, newest
from tiersnap.snapshot import tables
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.stages.carry_partitions import CarryPartitions
from tiersnap.snapshot.stages.carry_plan import (
    CARRIED,
    KNOWN_SNAPSHOT,
    PARTITION_PLAN,
    TIERED_SEGMENT,
    outcome_fingerprint,
)
from tiersnap.snapshot.stages.decoded_segments import DECODED_SEGMENT
from tiersnap.snapshot.stages.snapshot_sink import SnapshotSink

_SNAPSHOT_KEY = (*tables.PARTITION_KEY, "end_offset")
_LEAST_TASK_SEGMENTS = 50
_MOST_TASK_SEGMENTS = 20_000
_FEW_PARTITIONS = 10  # of which only what is new is folded


@dataclass(frozen=True)
class Carried:
    """Where every listed partition stands.

    Attributes:
        readiness: rows of READINESS, one a listed segment.
        snapshots: rows of SNAPSHOTS, the newest of each boundary.
        partitions: carried by this run.
        written: snapshots written by this run.
        findings: damage found in the partitions that were carried.
        errors: what could not be written.
        is_transient: all of them may pass.
    """

    readiness: pa.Table
    snapshots: pa.Table
    partitions: int
    written: int
    findings: list[dict[str, object]]
    errors: list[str]
    is_transient: bool = True


def carry_changed(
    engine: Engine,
    warehouse: Warehouse,
    partitions: pa.Table,
    decoded: Decoded,
    tiered: pa.Table,
    sink: SnapshotSink | None,
    settings: RunSettings,
    listing: Listing,
) -> Carried:
    """Carry partitions whose files, settings or remote segments are not as they were.

    The verdicts are committed before the fingerprints that say they need no new look: a run that is killed in between
    carries again, and never takes verdicts for known that no table holds.

    Args:
        tiered: rows of REMOTE_LOG_SEGMENTS with base_offset, of the segments in remote storage.
    """
    states = warehouse.newest("partition_states", tables.PARTITION_KEY, "recorded_at")
    snapshots = warehouse.newest("snapshots", _SNAPSHOT_KEY, "recorded_at")
    before = warehouse.read("readiness")
    keys = key_of(partitions, tables.PARTITION_KEY)
    is_changed = pc.or_(
        _is_changed(partitions, keys, decoded, states, settings, writes=sink is not None),
        _lacks_verdicts(partitions, keys, before, tiered),
    )
    changed = partitions.filter(is_changed)
    kept = before.filter(_is_among(before, keys, but_not=key_of(changed, tables.PARTITION_KEY)))
    if changed.num_rows == 0:
        return Carried(kept, snapshots, 0, 0, [], [])
    if states.num_rows and changed.num_rows <= _FEW_PARTITIONS:
        engine = suited(engine, decoded.count, little=_LEAST_TASK_SEGMENTS)
    plan = _plan(changed, decoded, states, snapshots, tiered, engine.parallelism)
    now = max(settings.now, after(states, "recorded_at"), after(snapshots, "recorded_at"))
    task = CarryPartitions(settings.warehouse, settings.carry, sink, settings.run_id, now)
    results = engine.map("carry", plan, task, CARRIED)
    new_states = _flatten(results["state"], tables.PARTITION_STATES)
    new_snapshots = _flatten_lists(results["snapshots"], tables.SNAPSHOTS)
    readiness = pa.concat_tables([kept, _flatten_lists(results["readiness"], tables.READINESS)])
    _commit_states(
        warehouse, newest(pa.concat_tables([states, new_states]), tables.PARTITION_KEY, "recorded_at"), results
    )
    warehouse.append("snapshots", new_snapshots)
    keep_verdicts(warehouse, readiness, listing, settings)
    warehouse.append("partition_states", new_states)
    return Carried(
        readiness=readiness,
        snapshots=newest(pa.concat_tables([snapshots, new_snapshots]), _SNAPSHOT_KEY, "recorded_at"),
        partitions=changed.num_rows,
        written=int(pc.sum(results["written"]).as_py() or 0),
        findings=pc.list_flatten(results["findings"].combine_chunks()).to_pylist(),
        errors=pc.list_flatten(results["errors"].combine_chunks()).to_pylist(),
        is_transient=bool(pc.all(results["is_transient"]).as_py()),
    )


def _is_changed(
    partitions: pa.Table, keys: pa.Array, decoded: Decoded, states: pa.Table, settings: RunSettings, *, writes: bool
) -> pa.Array:
    listed = zip(
        partitions["fingerprint"].to_pylist(),
        partitions["topic_id"].to_pylist(),
        _decoded_at(partitions, keys, decoded).to_pylist(),
        strict=True,
    )
    wanted = pa.array([outcome_fingerprint(*each, settings.carry, writes=writes) for each in listed], pa.string())
    found = states["fingerprint"].combine_chunks().take(positions(keys, key_of(states, tables.PARTITION_KEY)))
    return pc.invert(pc.fill_null(pc.equal(wanted, found), False))


def _decoded_at(partitions: pa.Table, keys: pa.Array, decoded: Decoded) -> pa.Array:
    """For each partition when the last of its listed segments was decoded, null without segments."""
    listed = explode(partitions, "segments", tables.PARTITION_KEY)
    at = positions(key_of(listed, tables.SEGMENT_KEY), key_of(decoded.segments, tables.SEGMENT_KEY))
    times = pa.table(
        {"key": key_of(listed, tables.PARTITION_KEY), "at": decoded.segments["decoded_at"].combine_chunks().take(at)}
    )
    latest = times.group_by("key").aggregate([("at", "max")])
    return latest["at_max"].combine_chunks().take(positions(keys, latest["key"].combine_chunks()))


def _lacks_verdicts(partitions: pa.Table, keys: pa.Array, before: pa.Table, tiered: pa.Table) -> pa.Array:
    """Mask of the partitions with a segment that has no verdict, or one that remote storage no longer bears out."""
    owners = key_of(before, tables.PARTITION_KEY)
    counts = pc.value_counts(owners)
    found = counts.field("counts").take(positions(keys, counts.field("values")))
    is_short = pc.not_equal(pc.fill_null(found, 0), pc.list_value_length(partitions["segments"].combine_chunks()))
    in_store = positions(key_of(before, REMOTE_KEY), key_of(tiered, REMOTE_KEY)).is_valid()
    is_gone = pc.and_not(pc.equal(before["verdict"], str(Verdict.ALREADY_TIERED)).combine_chunks(), in_store)
    return pc.or_(is_short, pc.is_in(keys, value_set=owners.filter(is_gone)))


def _is_among(rows: pa.Table, keys: pa.Array, *, but_not: pa.Array) -> pa.Array:
    own = key_of(rows, tables.PARTITION_KEY)
    return pc.and_not(pc.is_in(own, value_set=keys), pc.is_in(own, value_set=but_not))


def _plan(
    changed: pa.Table,
    decoded: Decoded,
    states: pa.Table,
    snapshots: pa.Table,
    tiered: pa.Table,
    parallelism: int,
) -> pa.Table:
    keys = key_of(changed, tables.PARTITION_KEY)
    # Not those that retention has deleted since: the table remembers them for ever.
    listed = key_of(explode(changed, "segments", tables.PARTITION_KEY), tables.SEGMENT_KEY)
    is_listed = pc.is_in(key_of(decoded.segments, tables.SEGMENT_KEY), value_set=listed)
    segments = decoded.segments.filter(is_listed)
    decoded_keys, decoded_lists = nest(segments, tables.PARTITION_KEY, "base_offset", DECODED_SEGMENT)
    known_keys, known_lists = nest(snapshots, tables.PARTITION_KEY, "end_offset", KNOWN_SNAPSHOT)
    tiered_keys, tiered_lists = nest(tiered, ("topic_id", "partition"), "base_offset", TIERED_SEGMENT)
    previous = to_structs(states, PARTITION_PLAN.field("previous").type)
    in_store = tiered_lists.take(positions(key_of(changed, ("topic_id", "partition")), tiered_keys))
    plan = (
        changed.append_column("decoded", _or_empty(decoded_lists.take(positions(keys, decoded_keys))))
        .append_column("previous", previous.take(positions(keys, key_of(states, tables.PARTITION_KEY))))
        .append_column("known", _or_empty(known_lists.take(positions(keys, known_keys))))
        .append_column("tiered", _or_empty(in_store))
    )
    weights = pc.list_value_length(plan["segments"]).to_numpy().astype(np.int64)
    target = spread_target(
        int(weights.sum()), parallelism=parallelism, least=_LEAST_TASK_SEGMENTS, most=_MOST_TASK_SEGMENTS
    )
    return pack(to_structs(plan, PARTITION_PLAN), weights, target=target, column="partitions")


def _or_empty(lists: pa.ListArray) -> pa.ListArray:
    return pc.coalesce(lists, pa.array([[]], lists.type).take(pa.array([0] * len(lists), pa.int32())))


def _flatten(column: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    structs = column.combine_chunks()
    return pa.Table.from_arrays(structs.flatten(), names=schema.names).cast(schema)


def _flatten_lists(column: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    structs = pc.list_flatten(column.combine_chunks())
    return pa.Table.from_arrays(structs.flatten(), names=schema.names).cast(schema)


def _commit_states(warehouse: Warehouse, states: pa.Table, results: pa.Table) -> None:
    """Bring producer_states to exactly the files that the newest states name."""
    written = pc.list_flatten(results["files"].combine_chunks()).to_pylist()
    named = set(states["state_file"].drop_null().unique().to_pylist())
    superseded = [path for path in warehouse.files("producer_states") if path not in named]
    warehouse.commit("producer_states", written, remove=superseded)
