"""`verify --remote` on Spark beside a host, many small partitions in S3: CPU of all processes, above a fixed start."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, spent
from tests.perf.scale import DATA, Scale
from tiersnap.jobs.demo.embedded_s3 import embedded_s3, make_bucket

_SEGMENT_BYTES = 60_000
_PARTITIONS, _SEGMENTS = 300, 4  # a segment is closed at a block's end, so a partition has fewer
_MOST = 2.0
_WORDS = (sys.executable, "-m", "tests.perf.whole_command", sys.executable, "-m", "tests.reference.tiersnap", "-q")


def rows(scale: Scale) -> Iterator[Row]:
    """Yield one row. The fixed start is the same command with one segment."""
    partitions = _PARTITIONS if scale.name != "quick" else _PARTITIONS // 10
    with embedded_s3() as url, tempfile.TemporaryDirectory(dir=DATA) as folder:
        host, fleet = [], []
        for count in (1, partitions):
            bucket = f"verify-{count}"
            make_bucket(url, bucket)
            place = ("--remote", f"s3://{bucket}/t", "--endpoint-url", url, "--path-style", "--region", "us-east-1")
            segments = 2 if count == 1 else _SEGMENTS
            log = made(LogShape(300, count * segments * _SEGMENT_BYTES, _SEGMENT_BYTES, partitions=count))
            _cpu("tier", log.path, *place, "--apply")
            verify = ("verify", "--depth", "snapshots", *place)
            host.append(_cpu(*verify))
            fleet.append(_cpu(*verify, "--warehouse", str(Path(folder) / bucket)))
    ours, peer = fleet[1] - fleet[0], host[1] - host[0]
    yield Row(
        f"verify --warehouse of {partitions} partitions, CPU above that of one segment",
        f"≤ {_MOST:g}\N{MULTIPLICATION SIGN} of a host",
        f"{ours:.1f} s above {fleet[0]:.1f} s",
        f"{peer:.1f} s above {host[0]:.1f} s",
        ours / peer,
        ours <= _MOST * peer,
    )


def _cpu(*words: str) -> float:
    return spent([*_WORDS, *words], ends_with=(0,)).cpu
