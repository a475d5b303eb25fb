"""What is read and asked for: bytes of a year's log that a run decodes, and requests to S3."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, interleaved, timed
from tests.perf.scale import MIB, Scale
from tests.perf.year_log import NOW, WEEK, YearLog
from tests.reference import log_builder as lb
from tests.reference.fleet_run import Runner
from tests.reference.planned import PARTITION, TOPIC_ID, planned
from tests.reference.plugin_compressed import compress_copy
from tests.reference.tiered import aiven, rows_of, tier
from tests.s3.fault_proxy import FaultProxy
from tiersnap.jobs.demo.embedded_s3 import embedded_s3, make_bucket
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.remote_storage.verify.check_plan import plan_check
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.replay.expiry import Scan
from tiersnap.snapshot.replay.segment_runs import fold_segment

BUCKET = "reading"
_SHARE = 0.05
_LISTED_PARTITIONS = 20
_THREADS = 2


def rows(scale: Scale) -> Iterator[Row]:
    """Shares of a year's log, then requests and MB/s against moto."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _year(Path(folder))
    with embedded_s3() as url, tempfile.TemporaryDirectory() as folder:
        make_bucket(url, BUCKET)
        with FaultProxy(url) as proxy:
            yield _listing(url, proxy, Path(folder))
            yield _tiering(proxy, Path(folder))
            yield _verifying(url, proxy, Path(folder))
        yield _download(url, scale)


def _year(folder: Path) -> Iterator[Row]:
    """Bytes that a first run decodes, by the joins that tests/spark holds against the DataFrames."""
    log = YearLog()
    source = folder / "logs"
    log.write(source, weeks=51)
    earlier = Runner(folder / "earlier", source)
    tiered = earlier(now=NOW - WEEK, as_of=None).segments_uploaded
    size = log.write(source)
    exact = Runner(folder / "exact", source, remote=earlier.remote)(now=NOW, as_of=None)
    window = Runner(folder / "window", source)(now=NOW, as_of=NOW, expiration=WEEK, apply=False, scan=Scan.WINDOW)
    for what, ran in (
        (f"first run with --scan exact, {tiered} of {log.segments} segments tiered", exact),
        (f"first run with --scan window, none of {log.segments} segments tiered", window),
    ):
        decoded = sum(change["decode_bytes"] for change in ran.changes)
        yield Row(
            f"bytes decoded of a log of 52 weeks, {what}",
            f"≤ {_SHARE:.0%}",
            f"{decoded:,} bytes",
            f"{size:,} bytes (all)",
            decoded / size,
            decoded / size <= _SHARE,
        )


def _log_dir(url: str, prefix: str) -> str:
    place = url.removeprefix("http://")
    return f"s3://{BUCKET}/{prefix}?endpoint_override={place}&scheme=http&region=us-east-1"


def _put(url: str, folder: Path, prefix: str) -> None:
    client = boto3.client("s3", endpoint_url=url)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(folder)}")


def _listing(url: str, proxy: FaultProxy, folder: Path) -> Row:
    """A log directory in S3 listed, every partition of it."""
    log_dir = folder / "listed"
    for number in range(_LISTED_PARTITIONS):
        segments = {base: [lb.data_batch(base, 10)] for base in range(0, 50, 10)}
        lb.write_partition(log_dir, "listed", number, segments, high_watermark=50, indexes=True)
    _put(url, log_dir, "listed")
    uri = _log_dir(proxy.url, "listed")
    proxy.requests.clear()
    found = list(selected(open_log_dir(uri), uri, None))
    assert [len(partition.segments) for partition in found] == [5] * _LISTED_PARTITIONS
    each = len(proxy.requests) / len(found)
    return Row(
        f"requests to list a log directory in S3, {len(found)} partitions of 5 segments",
        "≤ 2 a partition",
        f"{each:.2f} a partition",
        "2 a partition",
        each / 2,
        each <= 2,
    )


def _tiering(proxy: FaultProxy, folder: Path) -> Row:
    """Segments into S3, what is asked once a partition left out."""
    count = 10
    segments = {10 * number: [lb.data_batch(10 * number, 1)] for number in range(count + 1)}
    end = 10 * count + 1
    made_folder = lb.write_partition(folder / "tier", "orders", 0, segments, high_watermark=end, topic_id=TOPIC_ID)
    store = S3Store(BUCKET, "", S3Settings(endpoint_url=proxy.url, region="us-east-1", path_style=True))
    ready = planned(made_folder)

    def requests(chosen: Callable[[int], bool]) -> int:
        proxy.requests.clear()
        wanted = [each for number, each in enumerate(ready) if chosen(number)]
        done = rows_of(tier_partition(aiven(store), PARTITION, wanted, Tierer("bench", 1_700_000_000_000)))
        assert [row["error"] for row in done] == [None] * len(done)
        return sum("partNumber=" not in request for request in proxy.requests)

    first = requests(lambda number: number == 0)
    each = (requests(lambda number: number > 0) - min(first, 4)) / (count - 1)
    return Row(
        "requests to tier a segment to S3, besides parts and what is asked once a partition",
        "≤ 8",
        f"{each:.2f}",
        "8",
        each / 8,
        each <= 8,
    )


def _verifying(url: str, proxy: FaultProxy, folder: Path) -> Row:
    """Two segments of 64 KiB, compressed in chunks of 1 KiB, verified whole."""
    segments = {
        base: [lb.data_batch(base + at, 1, payload=bytes(range(256)) * 32) for at in range(8)] for base in (0, 8, 16)
    }
    source = lb.write_partition(folder / "whole", "orders", 0, segments, high_watermark=24, topic_id=TOPIC_ID)
    tier(source, DirectoryStore(folder / "compressed"))
    for manifest in sorted((folder / "compressed").rglob("*.rsm-manifest")):
        compress_copy(manifest, 1024)
    _put(url, folder / "compressed", "compressed")
    store = S3Store(BUCKET, "compressed/", S3Settings(endpoint_url=proxy.url, region="us-east-1", path_style=True))
    proxy.requests.clear()
    asked = CheckRequest(CheckDepth.FULL, 1_700_000_000_000, None)
    plan = plan_check(open_location(store, "aiven"), asked, lambda _: True)
    for partition in plan.partitions:
        assert all(each.verdict.is_sound for each in PartitionCheck(plan.location, partition, plan.request).checks())
    sent = len(proxy.requests)
    return Row(
        "requests to verify two compressed segments of 64 KiB in chunks of 1 KiB at depth full",
        "≤ the plan",
        f"{sent}",
        f"{plan.most_requests} (the plan)",
        sent / plan.most_requests,
        sent <= plan.most_requests,
    )


def _download(url: str, scale: Scale) -> Row:
    """A log in S3 decoded and folded, every CRC checked, against boto3 that downloads it."""
    segment_bytes = 16 * MIB
    log = made(LogShape(4096, max(scale.upload_bytes // 2, 4 * segment_bytes), segment_bytes))
    _put(url, Path(log.path), "read")
    uri = _log_dir(url, "read")
    opened = open_log_dir(uri)
    (partition,) = selected(opened, uri, None)
    client = boto3.client("s3", endpoint_url=url)
    size = sum(segment.log.size for segment in partition.segments)

    def in_threads(work: Callable[[int], object]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(work, range(len(partition.segments))))

    def ours(number: int) -> None:
        _, end = fold_segment(opened.filesystem, partition.segments[number])
        assert end.valid_bytes == partition.segments[number].log.size

    def theirs(number: int) -> None:
        key = partition.segments[number].log.path.removeprefix(f"{BUCKET}/")
        body = client.get_object(Bucket=BUCKET, Key=key)["Body"]
        assert sum(len(piece) for piece in body.iter_chunks(MIB)) == partition.segments[number].log.size

    mine, plain = interleaved(scale.repetitions, timed(lambda: in_threads(ours)), timed(lambda: in_threads(theirs)))
    return Row(
        f"a log of {size // MIB} MiB read from S3 (moto), decoded and folded with every CRC-32C, {_THREADS} threads",
        "≥ 0.7\N{MULTIPLICATION SIGN}",
        f"{size / mine / 1e6:.0f} MB/s",
        f"{size / plain / 1e6:.0f} MB/s (boto3 get_object)",
        plain / mine,
        plain / mine >= 0.7,
    )
