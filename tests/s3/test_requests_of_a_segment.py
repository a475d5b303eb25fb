"""The requests of one more segment in the plugin's layout, as a real S3 server gets them, by their purpose."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.reference import log_builder as lb
from tests.reference.planned import PARTITION, TOPIC_ID, planned, with_snapshot
from tests.reference.tiered import aiven, rows_of
from tests.s3.fault_proxy import FaultProxy
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition

pytestmark = pytest.mark.s3

ME = Tierer("run-1", 1_700_000_000_500, wait=0, pause=lambda _: None)
COUNT = 8
BUDGET = 8
# In the order in which an attempt makes them. Each proves something: the first gives the snapshot that was judged, the
# claim keeps other attempts out, and the listing and the second look at the claim come before the manifest.
OF_SEGMENT = {
    "read its snapshot": 1,
    "claim it": 1,
    "put log": 1,
    "put indexes": 1,
    "list its objects": 1,
    "read its claim": 1,
    "put rsm-manifest": 1,
    "finish its claim": 1,
}
_KEY = re.compile(r"(\d{20})-[^./]+\.(log|indexes|rsm-manifest)$")
_CLAIM = re.compile(r"claims/.*/(\d{20})-\d+\.json$")
_SNAPSHOT = re.compile(r"snapshots/.*/(\d{20})\.snapshot$")
_STEM = re.compile(r"prefix=.*/(\d{20})-")


def write_segments(folder: Path) -> list[PlannedSegment]:
    """Closed segments of ten offsets each."""
    segments = {10 * number: [lb.data_batch(10 * number, 10)] for number in range(COUNT + 1)}
    end = 10 * (COUNT + 1)
    return planned(lb.write_partition(folder, "orders", 0, segments, high_watermark=end, topic_id=TOPIC_ID))


def stored(store: S3Store, segment: PlannedSegment) -> PlannedSegment:
    """Return the segment with its snapshot in remote storage, where a replay on Spark puts it."""
    source = segment.snapshot
    key = keys.snapshot(PARTITION, source.offset)
    store.put_if_absent(key, source.data)
    return with_snapshot(segment, data=None, object_key=key)


def purposes(requests: list[str], base: int) -> Counter[str]:
    """Count the requests that name the segment at `base`, by their purpose."""
    found: Counter[str] = Counter()
    for request in requests:
        method, _, address = request.partition(" ")
        path, _, query = unquote(address).partition("?")
        if (match := _KEY.search(path)) and int(match[1]) == base:
            found[f"{method.lower()} {match[2]}"] += 1
        elif (match := _CLAIM.search(path)) and int(match[1]) == base:
            writes = "claim it" if not found["claim it"] else "finish its claim"
            found[writes if method == "PUT" else "read its claim"] += 1
        elif (match := _SNAPSHOT.search(path)) and int(match[1]) == base + 10:
            found["read its snapshot"] += 1
        elif (match := _STEM.search(query)) and int(match[1]) == base:
            found["list its objects"] += 1
    return found


def test_tier_partition_makes_eight_requests_a_segment(
    proxy: FaultProxy, faulty_store: S3Store, tmp_path: Path
) -> None:
    segments = [stored(faulty_store, each) for each in write_segments(tmp_path / "logs")]
    proxy.requests.clear()
    rows = rows_of(tier_partition(aiven(faulty_store), PARTITION, segments, ME))
    assert [row["error"] for row in rows] == [None] * 2 * COUNT
    made = list(proxy.requests)
    for segment in segments:
        assert purposes(made, segment.base_offset) == OF_SEGMENT
    assert sum(OF_SEGMENT.values()) <= BUDGET
    of_segments = COUNT * sum(OF_SEGMENT.values())
    assert len(made) - of_segments <= 3, [each for each in made if "list-type" in each]  # those of the partition


def test_tier_partition_makes_seven_requests_a_segment_when_it_holds_the_snapshot(
    proxy: FaultProxy, faulty_store: S3Store, tmp_path: Path
) -> None:
    segments = write_segments(tmp_path / "logs")
    proxy.requests.clear()
    rows = rows_of(tier_partition(aiven(faulty_store), PARTITION, segments, ME))
    assert [row["error"] for row in rows] == [None] * 2 * COUNT
    made = list(proxy.requests)
    without = Counter(OF_SEGMENT) - Counter({"read its snapshot": 1})
    assert [purposes(made, each.base_offset) for each in segments] == [without] * COUNT
