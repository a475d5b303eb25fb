"""What lost answers and signals leave in S3, and who removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reference.listed_claims import list_claims
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.planned import PARTITION, TOPIC_ID, planned
from tests.reference.tiered import aiven, rows_of
from tests.s3.conftest import settings_for
from tests.s3.test_orphans import begin_upload
from tests.s3.test_s3_faults import is_put
from tests.s3.test_upload_to_s3 import PAYLOAD
from tiersnap.remote_storage.metadata.segment_metadata import new_segment_id
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.retire.store_leftovers import SweptStore, sweep_store
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition

pytestmark = pytest.mark.s3

ROOT = Path(__file__).parents[2]
COMMAND = "from tiersnap.jobs.main import main; main()"


def write_log(folder: Path, *, payload: int = 10) -> Path:
    segments = {10 * number: [data_batch(10 * number, 10, payload=bytes(payload))] for number in range(3)}
    return write_partition(folder, "orders", 0, segments, high_watermark=30, topic_id=TOPIC_ID, indexes=True)


def test_sweep_store_aborts_the_upload_whose_answer_was_lost(proxy, faulty_store, tmp_path):
    """The request is repeated, so two uploads are begun, and one of them is completed."""
    lost = proxy.when(lambda method, path: method == "POST" and path.endswith("?uploads"), "drop-answer", times=1)
    ready = planned(write_log(tmp_path, payload=PAYLOAD))[:1]
    rows = rows_of(tier_partition(aiven(faulty_store), PARTITION, ready, Tierer("run", 1)))
    assert ([row["error"] for row in rows], lost.hits) == ([None, None], 1)
    (left,) = faulty_store.unfinished_uploads()
    theirs = begin_upload(faulty_store, new_segment_id())
    # moto dates every upload in 2010.
    assert sweep_store(faulty_store, lambda topic: topic != "orders") == SweptStore()
    assert sweep_store(faulty_store, lambda _: True) == SweptStore(uploads=1)
    assert [upload.key for upload in faulty_store.unfinished_uploads()] == [theirs]
    assert left.key != theirs


def test_sweep_store_goes_on_where_uploads_may_not_be_listed(proxy, faulty_store):
    proxy.when(lambda _, path: "uploads" in path, "answer", status=403, code="AccessDenied")
    assert sweep_store(faulty_store, lambda _: True) == SweptStore()


def test_tier_cleans_up_when_it_is_terminated(proxy, bucket, tmp_path):
    write_log(tmp_path / "logs")
    stalled = proxy.when(lambda method, path: is_put(method, path) and ".indexes" in path, "stall", seconds=60)
    words = ["tier", tmp_path / "logs", "--remote", f"s3://{bucket}", "--endpoint-url", proxy.url, "--path-style"]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, words), "--apply"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(600):
            if stalled.hits or process.poll() is not None:
                break
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, stalled.hits > 0) == (143, True), said
    assert "Traceback" not in said
    store = S3Store(bucket, "", settings_for(proxy.url))
    found = list_remote_partition(aiven(store), PARTITION)
    assert (found.segments, found.leftovers) == ((), ())
    claimed = list(list_claims(store, PARTITION))
    assert claimed
    assert all(held.claim.holder.ended for held in claimed), "the next run on any host need not wait"
