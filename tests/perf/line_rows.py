"""`tier` over a line of 30 ms: many small segments against boto3, and a run that finds all of them tiered."""

from __future__ import annotations

import io
import os
import pickle
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from tests.perf.host_rows import tiersnap, tiny
from tests.perf.latency import behind
from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, spent
from tests.perf.scale import DATA, Scale
from tests.s3 import versitygw
from tiersnap.remote_storage.upload.segments_in_flight import SEGMENTS_AT_ONCE

SECONDS = 0.03
_BUCKET = "perf"
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}


def rows(scale: Scale) -> Iterator[Row]:
    """Nothing without versitygw, which costs little beside what is measured."""
    if not versitygw.PROGRAM.exists():
        return
    os.environ.update(_ENVIRONMENT)
    with tempfile.TemporaryDirectory(dir=DATA) as work:
        yield from _first(scale, Path(work))
    with tempfile.TemporaryDirectory(dir=DATA) as work:
        yield from _again(scale, Path(work))


def _first(scale: Scale, work: Path) -> Iterator[Row]:
    """The same objects by boto3's own transfers, as many at once as there are segments in flight."""
    count = scale.many_segments // 2
    log = made(LogShape(300, count * 29_778, 29_000, producers=10))
    (work / "server").mkdir()
    with versitygw.running(work / "server", "testing", "testing") as url, behind(url, SECONDS) as line:
        # boto3's default session keeps the credentials with which an earlier part used it.
        client = boto3.Session().client("s3", endpoint_url=url)
        client.create_bucket(Bucket=_BUCKET)
        ours = tiersnap("tier", log.path, *_remote(line), "--apply")
        stored = list(_objects(client))
        for what, ends, budget in (
            ("all objects that it leaves", ("",), 1.3),
            ("the objects of the segments alone", (".log", ".indexes", ".rsm-manifest"), None),
        ):
            chosen = [(key, data) for key, data in stored if key.endswith(ends)]
            (work / "objects").write_bytes(pickle.dumps(chosen))
            command = [sys.executable, "-m", "tests.perf.line_rows", line, str(work / "objects")]
            theirs = spent(command, ends_with=(0,))
            ratio = ours.seconds / theirs.seconds
            yield Row(
                f"tier of {count} segments over a line of {SECONDS * 1000:.0f} ms, {SEGMENTS_AT_ONCE} at once",
                "" if budget is None else f"≤ {budget}\N{MULTIPLICATION SIGN}",
                f"{ours.seconds:.1f} s",
                f"{theirs.seconds:.1f} s (boto3, {what}: {len(chosen)})",
                ratio,
                None if budget is None else ratio <= budget,
            )


def _again(scale: Scale, work: Path) -> Iterator[Row]:
    log, server = made(tiny(scale)), work / "server"
    (server / _BUCKET).mkdir(parents=True)
    first = tiersnap("tier", log.path, "--remote", str(work / "tier"), "--layout", "aiven", "--apply")
    each = first.cpu / (log.segments - 1) * 1000
    yield Row(
        f"CPU of a segment, tier of {log.segments - 1:,} segments of 30 KB to a directory, start included",
        "≤ 1.5 ms",
        f"{each:.2f} ms",
        f"{first.seconds:.1f} s in all",
        each / 1.5,
        each <= 1.5,
    )
    with versitygw.running(server, "testing", "testing") as url, behind(url, SECONDS) as line:
        tiersnap("tier", log.path, *_remote(url), "--apply")
        second = tiersnap("tier", log.path, *_remote(line), "--apply")
    yield Row(
        f"tier with nothing to do over a line of {SECONDS * 1000:.0f} ms, {log.segments - 1:,} segments tiered",
        "≤ 10 s",
        f"{second.seconds:.1f} s",
        f"{second.cpu:.1f} s of CPU",
        second.seconds / 10,
        second.seconds <= 10,
    )


def _remote(line: str) -> list[str]:
    return ["--remote", f"s3://{_BUCKET}/tier", "--endpoint-url", line, "--path-style"]


def _objects(client: Any) -> Iterator[tuple[str, bytes]]:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix="tier/"):
        for found in page["Contents"]:
            yield found["Key"], client.get_object(Bucket=_BUCKET, Key=found["Key"])["Body"].read()


def upload(line: str, objects: Path) -> None:
    """What boto3 does with the objects; a process of its own, as tiersnap is."""
    client = boto3.client("s3", endpoint_url=line, config=Config(max_pool_connections=SEGMENTS_AT_ONCE))
    config = TransferConfig(use_threads=False)

    def put(item: tuple[str, bytes]) -> None:
        client.upload_fileobj(io.BytesIO(item[1]), _BUCKET, f"boto3/{item[0]}", Config=config)

    with ThreadPoolExecutor(SEGMENTS_AT_ONCE) as pool:
        list(pool.map(put, pickle.loads(objects.read_bytes())))


if __name__ == "__main__":
    upload(sys.argv[1], Path(sys.argv[2]))
