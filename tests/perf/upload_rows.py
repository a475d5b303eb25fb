"""Upload against plain boto3: to the S3 server of the tests, and to one that only reads what it is sent."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from boto3.s3.transfer import TransferConfig
from pyarrow import fs

from jobs.embedded_s3 import ENVIRONMENT, embedded_s3, make_bucket
from remote_storage.s3_settings import S3Settings
from remote_storage.s3_store import S3Store
from remote_storage.source_file import SourceFile
from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, interleaved, timed, warm_cache
from tests.perf.scale import Scale

BUCKET = "perf"


def rows(scale: Scale) -> Iterator[Row]:
    """One segment, 16 MiB parts, 4 at once on both sides.

    Plain boto3 has each part checked; asked for a checksum of the whole object, the server does for it what it does for
    us, which for moto is another pass over the object.
    """
    log = made(LogShape(4096, scale.upload_bytes, scale.upload_bytes))
    segment = next(iter(sorted(log.partition.glob("*.log"))))
    warm_cache([segment])
    for name, server in (("moto", embedded_s3), ("a server that drops what it reads", _sink)):
        with server() as url:
            if server is embedded_s3:
                make_bucket(url, BUCKET)
            ours, plain, whole = _measure(url, segment, scale.repetitions)
        size = segment.stat().st_size
        for peer, theirs in (("boto3 upload_file", plain), ("boto3 upload_file, checksum of the whole", whole)):
            ratio = theirs / ours
            yield Row(
                f"upload of {size >> 20} MiB to {name}, CRC-32C checked",
                "≥ 0.9\N{MULTIPLICATION SIGN}" if peer == "boto3 upload_file" else "",
                f"{size / ours / 1e6:.0f} MB/s",
                f"{size / theirs / 1e6:.0f} MB/s ({peer})",
                ratio,
                ratio >= 0.9 if peer == "boto3 upload_file" else None,
            )


def _measure(url: str, segment: Path, repetitions: int) -> list[float]:
    settings = S3Settings(endpoint_url=url, region="us-east-1", path_style=True, max_concurrency=4)
    store = S3Store(BUCKET, "ours/", settings)
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    config = TransferConfig(
        multipart_threshold=settings.part_size, multipart_chunksize=settings.part_size, max_concurrency=4
    )
    numbers = itertools.count()
    source = SourceFile(fs.LocalFileSystem(), str(segment), segment.stat().st_size)

    def ours() -> None:
        key = str(next(numbers))
        with source.open() as file:
            store.put_file_if_absent(key, file, source.size)
        client.delete_object(Bucket=BUCKET, Key=f"ours/{key}")

    def theirs(**arguments: str) -> None:
        key = f"theirs/{next(numbers)}"
        client.upload_file(str(segment), BUCKET, key, Config=config, ExtraArgs=arguments)
        client.delete_object(Bucket=BUCKET, Key=key)

    def whole() -> None:
        theirs(ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")

    return interleaved(repetitions, timed(ours), timed(theirs), timed(whole))


@contextmanager
def _sink() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-m", "tests.perf.sink"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            os.environ.update(ENVIRONMENT, NO_PROXY="127.0.0.1")
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()
