"""Objects whose bytes rot on the server's disk: its checksum is that of what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.left_over import CLUSTER, PARTITION
from tests.reference.planned import planned, write_log
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.replay.snapshot_sink import SnapshotObject

pytestmark = pytest.mark.s3


def test_put_replaces_a_snapshot_object_whose_bytes_rotted(
    comparing_store: S3Store, comparing_folder: Path, tmp_path: Path
) -> None:
    data = planned(write_log(tmp_path))[0].snapshot.data or b""
    name = (PARTITION.topic, PARTITION.topic_id, PARTITION.partition)
    snapshot = SnapshotObject(*name, CLUSTER, 5, data, "COMPUTED", 0, 2)
    assert StoredSnapshots(comparing_store, "run-1").put(snapshot).is_new
    key = keys.snapshot(PARTITION, 5)
    path = comparing_folder / comparing_store.bucket / comparing_store.prefix / key
    with path.open("r+b") as file:  # in place, so that the checksum beside it stays
        file.seek(20)
        file.write(bytes([data[20] ^ 1]))
    with pytest.raises(CorruptDataError):
        comparing_store.get(key)
    mended = StoredSnapshots(comparing_store, "run-2").put(snapshot)
    assert (mended.is_new, mended.is_mended) == (True, True)
    assert comparing_store.get(key) == data
    assert not StoredSnapshots(comparing_store, "run-3").put(snapshot).is_new
