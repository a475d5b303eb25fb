"""The requests of `verify --remote --depth full` that a server gets, compared with its plan."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.plugin_compressed import compress_copy
from tests.reference.tiered import tier
from tests.s3.fault_proxy import FaultProxy
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.s3_store import S3Store

pytestmark = pytest.mark.s3

KIB = 1 << 10


@pytest.fixture(name="compressed")
def fixture_compressed(s3_store: S3Store, tmp_path: Path) -> S3Store:
    """Store two segments of 64 KiB that the plugin compressed in chunks of 1 KiB."""
    noise = np.random.default_rng(1)
    segments = {
        base: [data_batch(base + at, 1, 7, 0, base + at, payload=noise.bytes(8 * KIB)) for at in range(8)]
        for base in (0, 8, 16)
    }
    folder = write_partition(tmp_path / "logs", "orders", 0, segments, indexes=True, high_watermark=24)
    tiered = tmp_path / "tiered"
    tier(folder, DirectoryStore(tiered))
    for manifest in sorted(tiered.rglob("*.rsm-manifest")):
        compress_copy(manifest, KIB)
    for path in tiered.rglob("*"):
        if path.is_file():
            s3_store.put_if_absent(path.relative_to(tiered).as_posix(), path.read_bytes())
    return s3_store


def test_verify_reads_neighbouring_chunks_in_one_request_as_planned(compressed: S3Store, proxy: FaultProxy) -> None:
    remote = f"s3://{compressed.bucket}/{compressed.prefix}"
    said = tiersnap("verify", "--depth", "full", "--remote", remote, "--endpoint-url", proxy.url, "--path-style")
    assert "2 of 2 remote segments are sound" in said.err
    planned = re.search(r"at most (\d+) requests", said.err)
    assert planned is not None, said.err
    logs = [each for each in proxy.requests if re.match(r"GET .*\.log(\?|$)", each)]
    assert len(logs) == 2, logs
    assert len(proxy.requests) <= int(planned[1]), "with the listing of the plan itself"
