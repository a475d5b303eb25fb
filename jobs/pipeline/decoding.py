"""Stage 2: decode what changed since the last run, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.engine import Engine, suited
from tiersnap.jobs.pipeline.arrow_plans import explode, key_of, pack, positions, spread_target, to_structs
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.warehouse import Warehouse, after, newest
from tiersnap.snapshot import tables
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.stages.decode import DECODED, SEGMENT_PLAN, DecodeSegments

_LEAST_TASK_BYTES = 64 << 20
# A single process decodes this much in about the time that Spark takes to start, from a slow disk in a little more.
_LITTLE_BYTES = 512 << 20
# Minutes over a network, so that a lost task costs minutes; smaller ones would be millions for a fleet.
_MOST_TASK_BYTES = 64 << 30
# A file system's seek and a Parquet row group cost about as much as reading this much.
_SEGMENT_OVERHEAD_BYTES = 1 << 20
_UNREADABLE = str(FindingKind.UNREADABLE_FILE)


@dataclass(frozen=True)
class Decoded:
    """What is known of every segment now.

    Attributes:
        segments: rows of SEGMENTS, the newest decode of each segment that was ever listed.
        count: segments decoded by this run.
        bytes: of their files.
    """

    segments: pa.Table
    count: int
    bytes: int


def decode_changed(engine: Engine, warehouse: Warehouse, partitions: pa.Table, settings: RunSettings) -> Decoded:
    """Decode and fold the segments that are new or not as they were; commit what that gave."""
    known = warehouse.newest("segments", tables.SEGMENT_KEY, "decoded_at")
    listed = explode(partitions, "segments", ("log_dir", "topic", "partition", "high_watermark"))
    changed = listed.filter(_is_changed(warehouse, listed, known, settings))
    if changed.num_rows == 0:
        return Decoded(known, 0, 0)
    if known.num_rows:
        engine = suited(engine, int(pc.sum(changed["size_bytes"]).as_py()), little=_LITTLE_BYTES)
    plan = _plan(changed, engine.parallelism)
    now = max(settings.now, after(known, "decoded_at"))
    task = DecodeSegments(settings.warehouse, settings.keep_headers, settings.check_crc, now)
    results = engine.map("decode", plan, task, DECODED)
    results = results.filter(pc.invert(_is_still_unreadable(results, known)))
    if results.num_rows == 0:
        return Decoded(known, 0, 0)
    rows = results.select(tables.SEGMENTS.names).cast(tables.SEGMENTS)
    segments = newest(pa.concat_tables([known, rows]), tables.SEGMENT_KEY, "decoded_at")
    _commit(warehouse, segments, results)
    warehouse.append("segments", rows)
    return Decoded(segments, rows.num_rows, int(pc.sum(rows["size_bytes"]).as_py()))


def _is_changed(warehouse: Warehouse, listed: pa.Table, known: pa.Table, settings: RunSettings) -> pa.Array:
    """Mask of the listed segments whose decode is missing or of another file."""
    keys = key_of(listed, tables.SEGMENT_KEY)
    before = known.take(positions(keys, key_of(known, tables.SEGMENT_KEY)))
    same = pc.equal(listed["size_bytes"], before["size_bytes"])
    same = pc.and_(same, pc.equal(listed["modified_ns"], before["modified_ns"]))
    same = pc.and_(same, _ends_as_it_did(listed, before))
    # The next attempt may succeed, and neither size nor time of the file will say so.
    same = pc.and_(same, pc.fill_null(pc.not_equal(before["finding_kind"], _UNREADABLE), True))
    if settings.check_crc:
        # What was taken on trust before is looked at now.
        same = pc.and_(same, before["crc_checked"])
    same = pc.and_not(same, _is_lost(warehouse, "producer_deltas", before["deltas_file"], _has_producers(before)))
    if settings.keep_headers:
        has_rows = pc.greater(before["batch_count"], 0)
        same = pc.and_(same, pc.is_valid(before["batches_file"]))
        same = pc.and_not(same, _is_lost(warehouse, "record_batches", before["batches_file"], has_rows))
    mask = pc.invert(pc.fill_null(same, False)).combine_chunks().to_numpy(zero_copy_only=False).copy()
    _add_new_cuts(mask, listed, before)
    # A file of the warehouse is replaced whole: whoever shares one with a changed segment is decoded anew as well.
    files = before["deltas_file"].combine_chunks()
    touched = files.filter(pa.array(mask)).drop_null().unique()
    shares = pc.fill_null(pc.is_in(files, value_set=touched), False).to_numpy(zero_copy_only=False)
    return pa.array(mask | shares)


def _is_lost(warehouse: Warehouse, table: str, files: pa.ChunkedArray, has_rows: pa.ChunkedArray) -> pa.Array:
    """Mask of the decodes whose file is no part of the table any more: somebody compacted it, or went back."""
    is_there = pc.is_in(files, value_set=pa.array(list(warehouse.files(table)), pa.string()))
    return pc.fill_null(pc.and_not(has_rows, is_there), False)


def _has_producers(rows: pa.Table) -> pa.Array:
    """Mask of the decodes with a row group in producer_deltas."""
    runs = rows["runs"].combine_chunks()
    has_group = pc.greater_equal(pc.struct_field(pc.list_flatten(runs), "row_group"), 0)
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[pc.list_parent_indices(runs).filter(has_group).to_numpy()] = True
    return pa.array(mask)


def _is_still_unreadable(results: pa.Table, known: pa.Table) -> pa.Array:
    """Mask of the decodes that failed as the last one did: no news, and no reason to commit anything."""
    at = positions(key_of(results, tables.SEGMENT_KEY), key_of(known, tables.SEGMENT_KEY))
    before = known.take(at)
    same = pc.and_(pc.equal(results["finding_kind"], _UNREADABLE), pc.equal(before["finding_kind"], _UNREADABLE))
    for name in ("size_bytes", "modified_ns", "finding_message"):
        same = pc.and_(same, pc.equal(results[name], before[name]))
    # Files are shared; only a decode that wrote none can be forgotten.
    return pc.and_(pc.fill_null(same, False), pc.equal(pc.list_value_length(results["files"]), 0))


def _ends_as_it_did(listed: pa.Table, before: pa.Table) -> pa.ChunkedArray:
    """Whether the segment is followed by the one that followed it, or was sound when it was rolled.

    What is normal at the end of the active segment is damage in a closed one, so only a sound end needs no new look.
    """
    follows = pc.equal(pc.fill_null(listed["next_base_offset"], -1), pc.fill_null(before["next_base_offset"], -1))
    whole = pc.and_(pc.equal(before["valid_bytes"], before["size_bytes"]), pc.greater(before["size_bytes"], 0))
    fits = pc.less_equal(before["log_end_offset"], listed["next_base_offset"])
    was_rolled = pc.and_(pc.is_null(before["next_base_offset"]), pc.and_(whole, fits))
    return pc.or_(follows, pc.fill_null(was_rolled, False))


def _add_new_cuts(mask: np.ndarray, listed: pa.Table, before: pa.Table) -> None:
    """Also decode where a state is now wanted inside the segment and the runs were not cut there."""
    has_cuts = pc.greater(pc.list_value_length(listed["cuts"]), 0).combine_chunks().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(has_cuts & ~mask):
        # A closed segment was cut up to its next base offset, which may lie beyond its last batch.
        is_closed = listed["next_base_offset"][row].is_valid
        end = before["log_end_offset"][row].as_py()
        starts = {run["start_offset"] for run in before["runs"][row].as_py()}
        mask[row] = any((is_closed or cut <= end) and cut not in starts for cut in listed["cuts"][row].as_py())


def _plan(changed: pa.Table, parallelism: int) -> pa.Table:
    """One row a task, packed by size in the order of the log."""
    settled = pc.and_(pc.is_valid(changed["next_base_offset"]), pc.equal(pc.list_value_length(changed["cuts"]), 0))
    ordered = changed.append_column("is_settled", settled).sort_by([(name, "ascending") for name in tables.SEGMENT_KEY])
    weights = ordered["size_bytes"].to_numpy() + _SEGMENT_OVERHEAD_BYTES
    target = spread_target(int(weights.sum()), parallelism=parallelism, least=_LEAST_TASK_BYTES, most=_MOST_TASK_BYTES)
    return pack(to_structs(ordered, SEGMENT_PLAN), weights, target=target, column="segments")


def _commit(warehouse: Warehouse, segments: pa.Table, results: pa.Table) -> None:
    """Bring the file tables to exactly the files that the newest decodes name; `segments` is committed after them."""
    written = pc.list_flatten(results["files"].combine_chunks()).to_pylist()
    for name, column in (("producer_deltas", "deltas_file"), ("record_batches", "batches_file")):
        named = set(segments[column].drop_null().unique().to_pylist())
        files = [file for file in written if file["table"] == name]
        superseded = [path for path in warehouse.files(name) if path not in named]
        warehouse.commit(name, files, remove=superseded)
