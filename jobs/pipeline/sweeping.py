"""Stage 6, tier: deletes the leftovers of killed runs and ended copy attempts from remote storage."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.counts import count_swept
from tiersnap.jobs.pipeline.grouping import of_batches
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.retire.store_leftovers import sweep_store
from tiersnap.remote_storage.retire.sweep_task import SWEPT, SweepTask
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.units import count_of

_log = logging.getLogger(__name__)


def sweep_whole_store(store: ObjectStore, topics: re.Pattern[str] | None, talk: Callable[[str], None]) -> None:
    """Delete the probes, temporary files and unfinished uploads of killed processes; see `sweep_store`.

    Keep the unfinished uploads of topics that do not match `topics`.
    """
    swept = sweep_store(store, lambda topic: matches_topic(topic, topics))
    if str(swept):
        talk(f"removed leftovers of killed processes: {swept}")


def sweep_listed(listed: DataFrame, location: RemoteLocation, talk: Callable[[str], None]) -> None:
    """Delete the leftovers of the listed partitions. If an object cannot be deleted, the next run tries again."""
    first_segment = F.min(F.col("segments")[0]["base_offset"]).alias("local_start")
    # Group the replicas, so that each partition is swept once.
    left = listed.where("leftover_count > 0").groupBy("topic", "topic_id", "partition").agg(first_segment)
    swept = left.mapInArrow(of_batches(SweepTask(location)), schemas.of_arrow(SWEPT))
    removed, failed, first = count_swept(swept)
    if failed:
        partitions = count_of(failed, "partition")
        _log.warning("leftovers of %s cannot be deleted; the first failure: %s", partitions, first)
    if removed:
        talk(f"removed {count_of(removed, 'object')} of copy attempts that had ended unfinished")
