"""A look at remote storage with nothing new: CPU of this process, and requests, against a server in another one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.broker.harness.ports import free_ports
from tests.perf.measure import Row
from tests.perf.remote_server import topic_name
from tests.perf.scale import Scale
from tests.reference.planned import write_log
from tests.reference.tiered import aiven
from tiersnap.jobs.demo.embedded_s3 import ENVIRONMENT
from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, Partition, read_partition

_START_SECONDS = 120
_PARTITION_MS = 1.0  # of a fleet of 20,000 partitions
_TOPICS = 10
_LONG, _LONG_SECONDS = 20_000, 10.0


def rows(scale: Scale) -> Iterator[Row]:
    """Yield a fleet of short partitions, and one long partition."""
    os.environ.update(ENVIRONMENT, NO_PROXY="127.0.0.1")
    many = 5000 if scale.name != "quick" else 1000
    yield _fleet_row(1, many)
    yield _fleet_row(20, 500)
    few = look(1, 1, ahead=True)[0]
    count = _LONG if scale.name != "quick" else _LONG // 10
    cpu, requests = look(count, 1, ahead=True)
    more, most = cpu - few, _LONG_SECONDS * count / _LONG
    yield Row(
        f"listing of a partition of {count:,} tiered segments, nothing new, minus the CPU for a partition of 1 segment",
        f"≤ {most:g} CPU s",
        f"{more:.1f} CPU s, {requests} requests",
        f"{most:g} CPU s",
        more / most,
        more <= most,
    )


def _fleet_row(segments: int, partitions: int) -> Row:
    """Compare listings of topics with a listing of each partition, whose CPU per partition needs fewer partitions."""
    cpu, requests = look(segments, partitions, _TOPICS, ahead=True)
    sample = min(partitions, 200)
    cpu_alone, requests_alone = look(segments, sample, _TOPICS, ahead=False)
    each, alone = 1000 * cpu / partitions, 1000 * cpu_alone / sample
    return Row(
        f"listing of {partitions:,} partitions of {segments} tiered segments in {_TOPICS} topics, nothing new",
        f"≤ {_PARTITION_MS:g} ms CPU a partition",
        f"{each:.1f} ms, {requests / partitions:.1f} requests",
        f"{alone:.1f} ms, {requests_alone / sample:.1f} requests (each partition listed alone)",
        each / _PARTITION_MS,
        each <= _PARTITION_MS,
    )


def look(segments: int, partitions: int, topics: int = 1, *, ahead: bool) -> tuple[float, int]:
    """Return the CPU seconds of a look at each of the partitions, and the number of requests."""
    with _serving(segments, partitions, topics) as url, tempfile.TemporaryDirectory() as folder:
        settings = S3Settings(endpoint_url=url, region="us-east-1", path_style=True)
        store = S3Store("bench", "", settings)
        one = read_partition(LOCAL, str(write_log(Path(folder))), Checkpoints())
        logs = []
        for number in range(partitions):
            named = replace(one, topic=topic_name(number % topics), partition=number // topics)
            logs.append(_with_segments(named, segments))
        logs.sort(key=lambda each: each.name)  # in the order of the folders' names
        observe = Observe(aiven(store), refuses_plaintext=True, ahead=ListingAhead() if ahead else None)
        list(store.list("nothing"))  # the client is made by the first request
        before, started = _requests(url), time.process_time()
        tiered = [len(observe(each).tiered_segments(each)) for each in logs]
        cpu = time.process_time() - started
        assert tiered == [segments] * partitions
        return cpu, _requests(url) - before


def _with_segments(partition: Partition, count: int) -> Partition:
    first, bases = partition.segments[0], range(0, 10 * count, 10)
    segments = tuple(replace(first, base_offset=base, next_base_offset=base + 10) for base in bases)
    return replace(partition, segments=segments, leader_epochs=((0, 0),))


def _requests(url: str) -> int:
    with urllib.request.urlopen(f"{url}/counts", timeout=60) as answer:
        return sum(json.load(answer).values())


@contextmanager
def _serving(segments: int, partitions: int, topics: int) -> Iterator[str]:
    (port,) = free_ports(1)
    words = [sys.executable, "-m", "tests.perf.remote_server", *map(str, (port, segments, partitions, topics))]
    server = subprocess.Popen(words)
    try:
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)
