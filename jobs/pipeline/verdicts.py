"""The readiness table: one verdict a segment, of every source and topic that a run of this warehouse has listed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.pipeline.arrow_plans import key_of, positions
from tiersnap.jobs.pipeline.listing import Listing
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.warehouse import Warehouse
from tiersnap.snapshot import tables
from tiersnap.snapshot.gate.readiness import Verdict

REMOTE_KEY = ("topic_id", "partition", "base_offset")


def mark_tiered(readiness: pa.Table, tiered: pa.Table) -> pa.Table:
    """READINESS rows with ALREADY_TIERED wherever the whole segment is in remote storage by now.

    Args:
        tiered: topic_id, partition, base_offset and end_offset (inclusive) of segments in remote storage.
    """
    ends = tiered.group_by(list(REMOTE_KEY)).aggregate([("end_offset", "max")])
    at = positions(key_of(readiness, REMOTE_KEY), key_of(ends, REMOTE_KEY))
    reached = pc.greater_equal(
        pc.add(ends["end_offset_max"].combine_chunks().take(at), 1), readiness["next_base_offset"].combine_chunks()
    )
    done = pc.and_(pc.fill_null(reached, False), pc.is_valid(readiness["topic_id"].combine_chunks()))
    for name, value in (("verdict", str(Verdict.ALREADY_TIERED)), ("reason", "in remote storage"), ("next_step", "")):
        column = pc.if_else(done, pa.scalar(value), readiness[name])
        readiness = readiness.set_column(readiness.schema.get_field_index(name), tables.READINESS.field(name), column)
    return readiness


def keep_verdicts(warehouse: Warehouse, readiness: pa.Table, listing: Listing, settings: RunSettings) -> None:
    """Commit the verdicts of what was listed if the table does not say the same; those of others stay."""
    before = warehouse.read("readiness")
    order = [(name, "ascending") for name in tables.SEGMENT_KEY]
    new = (
        pa.concat_tables([before.filter(_is_unlisted(before, listing, settings)), readiness])
        .sort_by(order)
        .combine_chunks()
    )
    if not before.sort_by(order).combine_chunks().equals(new):
        warehouse.overwrite("readiness", new)


def _is_unlisted(rows: pa.Table, listing: Listing, settings: RunSettings) -> pa.Array:
    """Mask of the rows this run cannot speak for: of other sources, and of folders it was not to look into."""
    folders = pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "-").combine_chunks()
    is_kept = pa.array(np.ones(rows.num_rows, np.bool_))
    for source, log_dir in zip(settings.sources, listing.log_dirs, strict=True):
        is_gone = pc.invert(pc.is_in(folders, value_set=pa.array(log_dir.folders, pa.string())))
        is_kept = pc.and_not(is_kept, pc.and_(pc.equal(rows["log_dir"].combine_chunks(), source), is_gone))
    listed = key_of(listing.partitions, tables.PARTITION_KEY)
    return pc.and_not(is_kept, pc.is_in(key_of(rows, tables.PARTITION_KEY), value_set=listed))
