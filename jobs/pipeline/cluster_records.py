"""Before a partition's first segment is tiered: which cluster it comes from, for whoever restores it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.pipeline.arrow_plans import key_of
from tiersnap.remote_storage.cluster_record import put_cluster_id
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, parse
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.log.log_dir import LogDir, read_text

_REQUESTS_AT_ONCE = 8
_PARTITION = ("log_dir", "topic", "topic_id", "partition")


def record_clusters(
    store: ObjectStore, sources: Iterable[str], log_dirs: Iterable[LogDir], readiness: pa.Table, tiered: pa.Table
) -> None:
    """Name the cluster of every partition with a READY segment and none in remote storage yet.

    A source without a readable meta.properties names none: `restore` then asks for it.

    Args:
        tiered: topic_id and partition of the segments that are in remote storage.

    Raises:
        ObjectExistsError: the place holds segments of another cluster under the same topic id.
    """
    ready = readiness.filter(pc.equal(readiness["verdict"], str(Verdict.READY))).select(_PARTITION)
    if ready.num_rows == 0:
        return
    id_and_number = ("topic_id", "partition")
    known = pc.is_in(key_of(ready, id_and_number), value_set=key_of(tiered, id_and_number))
    clusters = {source: _cluster_id(log_dir) for source, log_dir in zip(sources, log_dirs, strict=True)}
    first = ready.filter(pc.invert(known)).group_by(list(_PARTITION)).aggregate([]).to_pylist()

    def record(row: dict[str, object]) -> None:
        cluster_id = clusters[str(row["log_dir"])]
        if cluster_id is not None:
            partition = TopicIdPartition(str(row["topic"]), str(row["topic_id"]), int(str(row["partition"])))
            put_cluster_id(store, ObjectKeys(), partition, cluster_id)

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        list(pool.map(record, first))


def _cluster_id(log_dir: LogDir) -> str | None:
    path = f"{log_dir.path}/{META_PROPERTIES}"
    try:
        return parse(read_text(log_dir.filesystem, path), name=path).cluster_id
    except (OSError, CorruptCheckpointError):
        return None
