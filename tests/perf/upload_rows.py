"""Upload against plain boto3: to the S3 server of the tests, and to one that only reads what it is sent."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
import numpy as np
from boto3.s3.transfer import TransferConfig

from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, Seconds, interleaved, timed, warm_cache
from tests.perf.scale import Scale
from tiersnap.jobs.demo.embedded_s3 import ENVIRONMENT, embedded_s3, make_bucket
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.checked_upload import CheckedLog
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL

BUCKET = "perf"
_END = 1 << 40  # an offset that no segment of a benchmark reaches


def rows(scale: Scale) -> Iterator[Row]:
    """One segment, 16 MiB parts, 4 at once on both sides.

    Plain boto3 has each part checked; asked for a checksum of the whole object, the server does for it what it does for
    us, which for moto is another pass over the object.
    """
    for name, server in (("moto", embedded_s3), ("a server that drops what it reads", _sink)):
        with server() as url:
            if server is embedded_s3:
                make_bucket(url, BUCKET)
            uploads = Uploads(url, scale)
            warm_cache([uploads.segment])
            ways = (uploads.ours, uploads.theirs, uploads.whole)
            ours, plain, whole = interleaved(scale.repetitions, *(uploads.seconds(way) for way in ways))
        size = uploads.source.size
        for peer, theirs in (("boto3 upload_file", plain), ("boto3 upload_file, checksum of the whole", whole)):
            ratio = theirs / ours
            yield Row(
                f"upload of {size >> 20} MiB to {name}, every batch and index checked",
                "≥ 0.9\N{MULTIPLICATION SIGN}" if peer == "boto3 upload_file" else "",
                f"{size / ours / 1e6:.0f} MB/s",
                f"{size / theirs / 1e6:.0f} MB/s ({peer})",
                ratio,
                ratio >= 0.9 if peer == "boto3 upload_file" else None,
            )


class Uploads:
    """One segment to one server, our way and boto3's; each returns the key of the object."""

    def __init__(self, url: str, scale: Scale) -> None:
        log = made(LogShape(4096, scale.upload_bytes, scale.upload_bytes))
        self.segment = min(log.partition.glob("*.log"))
        self.source = SourceFile(LOCAL, str(self.segment), self.segment.stat().st_size)
        snapshot = TrustedSnapshot(_END, snapshot_file.encode(np.empty(0, ENTRY_DTYPE)), Provenance.COMPUTED)
        self._ready = SegmentBundle(
            base_offset=int(self.segment.stem),
            next_base_offset=_END,
            max_timestamp=0,
            log=self.source,
            leader_epochs=((0, 0),),
            producer_snapshot=snapshot,
            open_transactions=(),
        )
        self._keys = map(str, itertools.count())
        settings = S3Settings(endpoint_url=url, region="us-east-1", path_style=True, max_concurrency=4)
        self._store = S3Store(BUCKET, "", settings)
        self._client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        self._config = TransferConfig(
            multipart_threshold=settings.part_size, multipart_chunksize=settings.part_size, max_concurrency=4
        )

    def ours(self, key: str) -> str:
        with self.source.open() as file:
            log = CheckedLog(file, self._ready, self._ready.found_indexes())
            self._store.put_file_if_absent(key, log, self.source.size)
        assert set(log.indexes.rebuilt) == {"offset index", "time index"}
        return key

    def theirs(self, key: str, **arguments: str) -> str:
        self._client.upload_file(str(self.segment), BUCKET, key, Config=self._config, ExtraArgs=arguments)
        return key

    def whole(self, key: str) -> str:
        """boto3's, and a checksum of the whole object asked for."""
        return self.theirs(key, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")

    def seconds(self, way: Callable[[str], str]) -> Seconds:
        """An upload, and the deletion of what it left."""
        return timed(lambda: self._client.delete_object(Bucket=BUCKET, Key=way(next(self._keys))))


@contextmanager
def _sink() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-m", "tests.perf.sink"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            os.environ.update(ENVIRONMENT, NO_PROXY="127.0.0.1")
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()
