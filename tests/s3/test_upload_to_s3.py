"""Segments into a real S3 server: the matrix of crashes again, a process killed in the middle, and memory."""

import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.planned import PARTITION, TOPIC_ID, planned
from tests.reference.tiered import aiven, rows_of
from tests.s3.conftest import settings_for
from tests.s3.segments import attempt, make_segment
from tiersnap.remote_storage.errors import CorruptSegmentError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import IndexType, StoredState
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.remote_log.segment_bytes import fetch_segment
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.send_objects import (
    copy_segment,
    delete_copy,
)
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import TransientError

pytestmark = pytest.mark.s3

ROOT = Path(__file__).parents[2]
PAYLOAD = 2 * MIN_PART_SIZE
LAYOUT = AivenLayout()


def keys_in(store: S3Store) -> list[str]:
    return [found.key for found in store.list()]


def test_a_large_segment_arrives_whole(s3_store, tmp_path):
    segment = make_segment(tmp_path, log_size=2 * MIN_PART_SIZE + 7, with_transactions=True)
    copy = attempt(segment)
    result = copy_segment(aiven(s3_store), segment, copy)
    assert keys_in(s3_store) == sorted(LAYOUT.object_keys(copy))
    assert result.bytes == sum(found.size for found in s3_store.list())
    assert b"".join(fetch_segment(s3_store, LAYOUT, copy)) == segment.log.read()
    assert LAYOUT.fetch_index(s3_store, copy, IndexType.PRODUCER_SNAPSHOT) == segment.producer_snapshot.data
    for key in LAYOUT.object_keys(copy):
        assert s3_store.head(key).metadata["snapshot-provenance"] == "COMPUTED"


@pytest.mark.parametrize("step", range(1, 5))  # three puts, and a listing before the last
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_after_a_crash_the_next_run_leaves_one_complete_copy(s3_store, tmp_path, step, fault):
    segment = make_segment(tmp_path)
    first = attempt(segment)
    with pytest.raises(Crash):
        copy_segment(RemoteLocation(FlakyStore(s3_store, {step: fault}), LAYOUT), segment, first)
    if LAYOUT.inspect(s3_store, first) is not StoredState.COMPLETE:
        assert delete_copy(aiven(s3_store), first) == ()
        assert keys_in(s3_store) == []
        copy_segment(aiven(s3_store), segment, attempt(segment))
    manifests = [key for key in keys_in(s3_store) if key.endswith(".rsm-manifest")]
    assert len(manifests) == 1
    assert all(key.startswith(manifests[0].removesuffix("rsm-manifest")) for key in keys_in(s3_store))
    assert len(keys_in(s3_store)) == 3


@pytest.mark.parametrize("matches", ["PUT", "POST"])
def test_after_a_failed_request_of_any_kind_nothing_is_left(proxy, faulty_store, tmp_path, matches):
    segment = make_segment(tmp_path, log_size=2 * MIN_PART_SIZE)
    rule = proxy.when(lambda method, _: method == matches, "answer", status=503, code="SlowDown")
    with pytest.raises(TransientError) as raised:
        copy_segment(aiven(faulty_store), segment, attempt(segment))
    assert rule.hits
    proxy.rules.clear()
    assert raised.value.attrs["left_behind"] == []
    assert keys_in(faulty_store) == []
    assert list(faulty_store.unfinished_uploads()) == []


@pytest.mark.parametrize("part_size", [MIN_PART_SIZE, 4 * MIN_PART_SIZE], ids=["multipart", "one put"])
def test_tier_partition_takes_at_most_8_requests_a_segment_besides_parts(proxy, bucket, tmp_path, part_size):
    store = S3Store(bucket, "", settings_for(proxy.url, part_size=part_size))
    log_dir = tmp_path / "logs"
    count = 5
    segments = {10 * number: [lb.data_batch(10 * number, 1, payload=bytes(PAYLOAD))] for number in range(count + 1)}
    folder = lb.write_partition(log_dir, "orders", 0, segments, high_watermark=10 * count + 1, topic_id=TOPIC_ID)

    def requests(to_tier) -> int:
        proxy.requests.clear()
        rows = rows_of(tier_partition(aiven(store), PARTITION, to_tier, Tierer("run", 1_700_000_000_000)))
        assert [row["error"] for row in rows] == [None] * len(rows)
        assert len(rows) == 2 * len(to_tier)
        return sum("partNumber=" not in request for request in proxy.requests)

    ready = planned(folder)
    one, rest = requests(ready[:1]), requests(ready[1:])
    parts = [request for request in proxy.requests if "partNumber=" in request]
    assert bool(parts) == (part_size == MIN_PART_SIZE)
    # What is asked once a partition: two listings, and the manifest and the claim of the copy that the first call made.
    budget = 8 if parts else 7
    assert one - 2 <= budget, proxy.requests
    assert rest - 4 <= budget * (count - 1)


def test_tier_takes_at_most_8_requests_a_segment_that_lacks_its_snapshot(proxy, bucket, tmp_path):
    """The whole command, the snapshot that it computes included."""
    asked = []
    for topic, count in (("few", 2), ("more", 7)):
        segments = {10 * number: [lb.data_batch(10 * number, 10, number)] for number in range(count + 1)}
        lb.write_partition(
            tmp_path / topic, topic, 0, segments, high_watermark=10 * count + 10, topic_id=TOPIC_ID, indexes=True
        )
        proxy.requests.clear()
        place = ("--remote", f"s3://{bucket}/{topic}", "--endpoint-url", proxy.url, "--path-style")
        ran = tiersnap("tier", tmp_path / topic, *place, "--apply")
        assert (ran.exit_code, [row["uploaded"] for row in ran.rows]) == (0, [count]), ran.err
        asked.append(len(proxy.requests))
    assert asked[1] - asked[0] <= 8 * 5, proxy.requests


def test_a_bit_that_flips_in_the_last_part_is_found_before_there_is_an_object(s3_store, tmp_path):
    segment = make_segment(tmp_path, log_size=3 * MIN_PART_SIZE)
    path = Path(segment.log.path)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptSegmentError):
        copy_segment(aiven(s3_store), segment, attempt(segment))
    assert keys_in(s3_store) == []
    assert list(s3_store.unfinished_uploads()) == []


KILLED = """
import pickle, sys
from tiersnap.remote_storage.upload.send_objects import copy_segment
copy_segment(*pickle.load(open(sys.argv[1], "rb")))
"""


def test_a_process_killed_in_the_middle_of_an_upload_leaves_what_can_be_cleaned(proxy, bucket, tmp_path):
    store = S3Store(bucket, "", settings_for(proxy.url))
    segment = make_segment(tmp_path / "log", log_size=3 * MIN_PART_SIZE)
    copy = attempt(segment)
    work = tmp_path / "work.pickle"
    work.write_bytes(pickle.dumps((aiven(store), segment, copy)))
    stalled = proxy.when(lambda method, path: "partNumber=2" in path, "stall", seconds=20)
    with subprocess.Popen([sys.executable, "-c", KILLED, work], cwd=ROOT) as process:
        for _ in range(300):
            if stalled.hits:
                break
            time.sleep(0.05)
        process.kill()
    assert stalled.hits
    proxy.rules.clear()
    # Nothing is visible, but the parts that arrived are there and cost money.
    assert LAYOUT.inspect(store, copy) is StoredState.ABSENT
    left = list(store.unfinished_uploads(keys.segment_stem(copy)))
    assert [upload.key for upload in left] == [LAYOUT.log_key(copy)]
    store.abort_upload(left[0])
    assert list(store.unfinished_uploads()) == []
    finished = attempt(segment)
    copy_segment(aiven(store), segment, finished)
    assert keys_in(store) == sorted(LAYOUT.object_keys(finished))


def test_memory_of_an_upload_is_a_few_parts(endpoint, bucket, tmp_path):
    size = 24 * MIN_PART_SIZE
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(size)
    code = f"""
import resource, sys
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
store = S3Store({bucket!r}, "", S3Settings(
    endpoint_url={endpoint!r}, path_style=True, part_size={MIN_PART_SIZE}, max_concurrency=2))
store.put_if_absent("warm", bytes({MIN_PART_SIZE}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open({str(path)!r}, "rb") as source:
    store.put_file_if_absent("large", source, {size})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 8 * MIN_PART_SIZE  # of 24
